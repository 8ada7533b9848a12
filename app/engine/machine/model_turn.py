"""A buffered model turn: recorded, scanned name by name, parked and resolved (agent-run.md 6).

The turn is scanned on a cursor, `ResolvingToolCalls`, which is also the state the run is parked in.
`original` stays as the model sent it, because a retry records what was really said; `items` holds
the repairs. Ignored calls stay in `items` until the scan ends, so positions keep their meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from app.engine.commands import (
    CompletionCall,
    Continue,
    Fail,
    Ignore,
    NeedsResolution,
    Repair,
    Retry,
    Skip,
    TurnRetried,
)
from app.engine.errors import PromptError
from app.engine.history import text_result
from app.engine.machine.invalid_calls import InvalidCall, decide
from app.engine.machine.record import (
    AwaitingAdvance,
    AwaitingModel,
    PreparingRequest,
    ResolvingToolCalls,
    SkippedCall,
)
from app.engine.machine.transition import Raised
from app.engine.messages import AssistantMessage, UserMessage
from app.engine.texts import NOT_EXECUTED
from app.engine.turn_content import tool_calls

if TYPE_CHECKING:
    from app.engine.commands import InvalidToolCallAction, ModelTurn, ModelTurnOutcome
    from app.engine.machine.record import RunRecord
    from app.engine.machine.transition import Transition


def take_model_turn(record: RunRecord, turn: ModelTurn) -> tuple[RunRecord, ModelTurnOutcome]:
    """Bill the turn, then accept it or park on its first invalid call."""
    if not isinstance(record.state, AwaitingModel):
        raise record.violation("model_response called without a pending CallModel")
    if record.state.recorded:
        raise record.violation("model_response called after record_streamed_completion_call")
    policy = record.effective_policy(turn.policy)
    call = CompletionCall(
        call_index=len(record.completion_calls),
        usage=turn.usage,
        message_id=turn.message_id,
        response_id=turn.response_id,
        provider_request_id=turn.provider_request_id,
        finish_reason=turn.finish_reason,
        raw=turn.raw,
    )
    cursor = ResolvingToolCalls(
        message_id=turn.message_id,
        original=turn.choice,
        items=turn.choice,
        next_position=0,
        policy=policy,
    )
    return _scan(record.recording(call).pinning(policy.output_tool), cursor)


def parked_call(record: RunRecord) -> InvalidCall | None:
    """The invalid call the run is parked on, computed from the state alone."""
    if not isinstance(record.state, ResolvingToolCalls):
        return None
    return _invalid_call(record, record.state)


def resolve(record: RunRecord, action: InvalidToolCallAction) -> Transition[ModelTurnOutcome]:
    """Apply a decision to the parked call and scan on."""
    state = record.state
    if not isinstance(state, ResolvingToolCalls):
        raise record.violation(
            "resolve_invalid_tool_call called without a pending invalid tool call"
        )
    decided = decide(record, _invalid_call(record, state), action=action)
    match decided:
        case PromptError():
            return Raised(record.failed(), decided)
        case Retry(feedback=feedback):
            return _retried(record, state, feedback=feedback), TurnRetried()
        case Repair(tool_name=name):
            return _scan(record, _repaired(state, name))
        case Skip(reason=reason):
            return _scan(record, _skipped(state, reason))
        case Ignore():
            return _scan(record, _ignored(state))
        case _:
            assert_never(decided)


def unhandled_action(record: RunRecord) -> Fail | Ignore:
    """What the run does with an invalid call that nobody decided on."""
    return Fail() if record.config.unhandled_invalid_tool_call == "fail" else Ignore()


def _invalid_call(record: RunRecord, parked: ResolvingToolCalls) -> InvalidCall:
    call = parked.parked_call()
    return InvalidCall(
        call=call,
        policy=parked.policy,
        history=record.diagnostic_history(parked.original, parked.message_id),
        args=call.arguments_text,
    )


def _scan(record: RunRecord, cursor: ResolvingToolCalls) -> tuple[RunRecord, ModelTurnOutcome]:
    for position, call in tool_calls(cursor.items):
        if position >= cursor.next_position and not cursor.policy.allows(call.name):
            parked = cursor.model_copy(update={"next_position": position})
            invalid = _invalid_call(record, parked)
            return record.entering(parked), NeedsResolution(context=invalid.context())
    return (
        record.entering(_accepted(cursor)),
        Continue(response_hook_suppressed=cursor.recovered),
    )


def _accepted(cursor: ResolvingToolCalls) -> AwaitingAdvance:
    kept = [place for place in range(len(cursor.items)) if place not in cursor.ignored]
    new_place = {old: new for new, old in enumerate(kept)}
    return AwaitingAdvance(
        message_id=cursor.message_id,
        items=tuple(cursor.items[place] for place in kept),
        policy=cursor.policy,
        skipped=tuple(
            SkippedCall(position=new_place[skip.position], result=skip.result)
            for skip in cursor.skipped
        ),
    )


def _retried(record: RunRecord, turn: ResolvingToolCalls, *, feedback: str) -> RunRecord:
    results = tuple(
        text_result(call, feedback if position == turn.next_position else NOT_EXECUTED)
        for position, call in tool_calls(turn.original)
    )
    retries = record.counters.invalid_tool_call_retries + 1
    return record.counting(invalid_tool_call_retries=retries).entering(
        PreparingRequest(),
        AssistantMessage(id=turn.message_id, content=turn.original),
        UserMessage(content=results),
    )


def _repaired(turn: ResolvingToolCalls, name: str) -> ResolvingToolCalls:
    place = turn.next_position
    renamed = turn.parked_call().renamed(name)
    items = (*turn.items[:place], renamed, *turn.items[place + 1 :])
    return turn.model_copy(update={"items": items, "recovered": True})


def _skipped(turn: ResolvingToolCalls, reason: str) -> ResolvingToolCalls:
    skip = SkippedCall(position=turn.next_position, result=text_result(turn.parked_call(), reason))
    return turn.model_copy(
        update={
            "skipped": (*turn.skipped, skip),
            "next_position": turn.next_position + 1,
            "recovered": True,
        }
    )


def _ignored(turn: ResolvingToolCalls) -> ResolvingToolCalls:
    return turn.model_copy(
        update={
            "ignored": (*turn.ignored, turn.next_position),
            "next_position": turn.next_position + 1,
        }
    )
