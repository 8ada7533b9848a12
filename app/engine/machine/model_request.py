"""Asking the model: the first time, again after a loss, and not at all when the budget is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine.commands import CallModel
from app.engine.errors import MaxTurnsError
from app.engine.machine.record import AwaitingModel
from app.engine.machine.transition import Raised

if TYPE_CHECKING:
    from app.engine.machine.record import RunRecord
    from app.engine.machine.transition import Transition


def request_turn(record: RunRecord) -> Transition[CallModel]:
    """Begin the next turn and charge it, or refuse with `MaxTurnsError` and change nothing."""
    if record.turn >= record.config.max_turns:
        error = MaxTurnsError(
            record.config.max_turns, prompt=record.prompt(), chat_history=record.full_history()
        )
        return Raised(record, error)
    begun = record.beginning_turn()
    return begun, call_model(begun)


def reissue_turn(record: RunRecord) -> tuple[RunRecord, CallModel]:
    """Ask for the same turn again, free of charge; the new attempt makes its own record."""
    if not isinstance(record.state, AwaitingModel):
        raise record.violation("reissue called without a pending CallModel")
    return record.entering(AwaitingModel()), call_model(record)


def call_model(record: RunRecord) -> CallModel:
    """The command for the turn that has begun."""
    return CallModel(
        prompt=record.prompt(),
        history=record.input_history + record.messages[:-1],
        turn=record.turn,
    )
