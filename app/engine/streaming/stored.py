"""The stored form of a `StreamedTurnAssembler` (agent-run.md 12).

Every field is required: what is absent was written by another version. The models check structure
here, and what a stream could never have led to; `format` and `kind` are checked before.
"""

from __future__ import annotations

from pydantic import model_validator

from app.engine.messages import Reasoning, ToolCall
from app.engine.turn_policy import TurnPolicy
from app.engine.usage import FinishReason
from app.engine.value import Count, NonEmpty, Value


class PartDocument(Value):
    """One part of the reasoning: pending with a text, or complete with a block."""

    correlator: str
    provider_id: str | None
    text: str | None
    complete: Reasoning | None
    extends: Count | None

    @model_validator(mode="after")
    def _pending_or_complete(self) -> PartDocument:
        if (self.text is None) == (self.complete is None):
            raise ValueError("text: expected exactly one of text and complete")
        if self.complete is None and self.extends is not None:
            raise ValueError("extends: a pending part extends nothing")
        return self


class KeptCall(Value):
    """One valid or repaired call."""

    internal_call_id: NonEmpty
    tool_call: ToolCall


class DeltasDocument(Value):
    """What streamed of one call; `refused` is the name that a repair replaced by `name`."""

    internal_call_id: NonEmpty
    name: str | None
    refused: str | None
    buffered: tuple[str, ...]

    @model_validator(mode="after")
    def _only_the_nameless_wait(self) -> DeltasDocument:
        if self.name is None and self.refused is not None:
            raise ValueError("refused: nothing was put in the place of this name")
        if self.name is not None and self.buffered:
            raise ValueError("buffered: arguments wait only while there is no name")
        return self


class ParkedCall(Value):
    """The call that awaits a decision; `by_name`: only its name has arrived."""

    internal_call_id: NonEmpty
    tool_call: ToolCall
    by_name: bool


class CallsDocument(Value):
    """All calls of the turn."""

    kept: tuple[KeptCall, ...]
    deltas: tuple[DeltasDocument, ...]
    ignored: tuple[NonEmpty, ...]
    abandoned: bool
    parked: ParkedCall | None

    @model_validator(mode="after")
    def _could_have_come_from_a_stream(self) -> CallsDocument:
        _require_unique([one.internal_call_id for one in self.deltas], "deltas: an id twice")
        if self.ignored != tuple(sorted(set(self.ignored))):
            raise ValueError("ignored: expected sorted, distinct ids")
        if self.parked is not None and (
            self.abandoned or self.parked.internal_call_id in self.ignored
        ):
            raise ValueError("parked: a call that was left out is never parked")
        return self


class AssemblerDocument(Value):
    """Everything an assembler is."""

    policy: TurnPolicy
    text: str
    saw_text: bool
    reasoning: tuple[PartDocument, ...]
    calls: CallsDocument
    finish_reason: FinishReason | None
    excluded: Count

    @model_validator(mode="after")
    def _could_have_come_from_a_stream(self) -> AssemblerDocument:
        for place, part in enumerate(self.reasoning):
            if part.extends is not None and not self._is_root(part.extends, before=place):
                raise ValueError(f"reasoning/{place}/extends: expected an earlier complete part")
        pending = [part.correlator for part in self.reasoning if part.complete is None]
        _require_unique(pending, "reasoning: two pending parts of one correlator")
        parked = self.calls.parked
        if parked is not None and self.policy.allows(parked.tool_call.name):
            raise ValueError("calls/parked: expected a call whose name is not allowed")
        return self

    def _is_root(self, place: int, *, before: int) -> bool:
        if place >= before:
            return False
        part = self.reasoning[place]
        return part.complete is not None and part.extends is None


def _require_unique(names: list[str], fault: str) -> None:
    if len(set(names)) != len(names):
        raise ValueError(fault)
