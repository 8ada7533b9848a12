"""From one command to the next: what follows from the state the run is in (agent-run.md 5.2).

The order of the checks on an accepted turn is the specification's: a turn that failed or was cut
before it said anything commits nothing; the output tool ends the run before real calls are looked
at; malformed calls are counted before the turn is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from app.engine.commands import AgentRunStep, Done, PromptResponse
from app.engine.errors import CompletionError
from app.engine.history import text_result
from app.engine.machine.model_request import reissue_turn, request_turn
from app.engine.machine.output_tool import (
    ask_for_output_call,
    output_call,
    output_calls,
    take_output,
    wants_output_call,
)
from app.engine.machine.record import (
    AwaitingAdvance,
    AwaitingModel,
    ExecutingTools,
    PreparingRequest,
    ResolvingToolCalls,
    RunDone,
    RunFailed,
    RunRecord,
    Slot,
)
from app.engine.machine.tool_batch import call_tools
from app.engine.machine.transition import Raised
from app.engine.messages import AssistantMessage, UserMessage
from app.engine.texts import NOT_EXECUTED
from app.engine.turn_content import (
    delivered_no_answer,
    is_empty_turn,
    joined_text,
    tool_calls,
)

if TYPE_CHECKING:
    from app.engine.machine.transition import Transition
    from app.engine.messages import ToolCall


def next_step(record: RunRecord, *, restored: bool) -> Transition[AgentRunStep]:
    """The next command. `restored`: the run was loaded and has not spoken since."""
    state = record.state
    match state:
        case PreparingRequest():
            return request_turn(record)
        case AwaitingModel():
            if not restored:
                raise record.violation("next_step called while a model response is pending")
            return reissue_turn(record)
        case ResolvingToolCalls():
            raise record.violation("next_step called before resolve_invalid_tool_call")
        case AwaitingAdvance():
            return _advance(record, state)
        case ExecutingTools():
            return record, call_tools(record)
        case RunDone():
            return record, Done(response=response(record, state))
        case RunFailed():
            raise record.violation("next_step called after the run already failed")
        case _:
            assert_never(state)


def response(record: RunRecord, done: RunDone) -> PromptResponse:
    """The outcome of a run that is done."""
    return PromptResponse(
        output=done.output,
        content=done.content,
        usage=record.usage,
        completion_calls=record.completion_calls,
        messages=record.messages,
    )


def _advance(record: RunRecord, turn: AwaitingAdvance) -> Transition[AgentRunStep]:
    if error := _unusable(record, turn):
        return Raised(record.failed(), error)
    if found := output_call(turn):
        position, call = found
        taken = take_output(record, turn, position=position, call=call)
        if isinstance(taken, RunDone):
            return _finished(record, turn, taken, output_tool_calls=output_calls(turn))
        return taken
    if tool_calls(turn.items):
        return _advance_tool_turn(record, turn)
    return _advance_text_turn(record, turn)


def _unusable(record: RunRecord, turn: AwaitingAdvance) -> CompletionError | None:
    """The error of a turn that failed, or was cut before it answered anything."""
    reason = record.completion_calls[-1].finish_reason
    if reason is None:
        return None
    if reason.kind == "failed":
        text = f"the model call failed: {reason.detail or 'no detail was given'}"
    elif reason.truncates and delivered_no_answer(turn.items):
        advice = "; raise max_tokens" if reason.kind == "length" else ""
        text = f"the answer ended with finish reason {reason.kind} before it began{advice}"
    else:
        return None
    return CompletionError("response", text, chat_history=record.full_history(), content=turn.items)


def _advance_text_turn(record: RunRecord, turn: AwaitingAdvance) -> Transition[AgentRunStep]:
    if wants_output_call(record, turn):
        return ask_for_output_call(record, turn)
    return _finished(record, turn, RunDone(output=joined_text(turn.items), content=turn.items))


def _finished(
    record: RunRecord, turn: AwaitingAdvance, done: RunDone, *, output_tool_calls: int = 0
) -> Transition[AgentRunStep]:
    if is_empty_turn(done.content):
        finished = record.entering(done)
    else:
        finished = record.entering(done, AssistantMessage(id=turn.message_id, content=done.content))
    counted = response(finished, done).model_copy(update={"output_tool_calls": output_tool_calls})
    return finished, Done(response=counted)


def _advance_tool_turn(record: RunRecord, turn: AwaitingAdvance) -> Transition[AgentRunStep]:
    counted = _count_malformed(record, turn)
    if isinstance(counted, Raised):
        return counted
    record = counted.counting(output_retries=0)
    message = AssistantMessage(id=turn.message_id, content=turn.items)
    if turn.skipped:
        return request_turn(record.entering(PreparingRequest(), message, _skipped_results(turn)))
    executing = ExecutingTools(slots=_slots(turn), policy=turn.policy)
    committed = record.entering(executing, message)
    return committed, call_tools(committed)


def _count_malformed(record: RunRecord, turn: AwaitingAdvance) -> RunRecord | Raised:
    """Count one more turn with an open malformed call, and fail past the limit."""
    malformed = None if turn.skipped else _first_malformed(turn)
    if malformed is None:
        return record.counting(malformed_tool_calls=0)
    count = record.counters.malformed_tool_calls + 1
    limit = record.config.max_consecutive_malformed_tool_calls
    record = record.counting(malformed_tool_calls=count)
    if limit is None or count <= limit:
        return record
    text = (
        f"the arguments of tool `{malformed.name}` were malformed in {count} consecutive turns "
        f"(limit {limit}): {malformed.function.error}"
    )
    history = record.full_history()
    error = CompletionError("response", text, chat_history=history, content=turn.items)
    return Raised(record.failed(), error)


def _first_malformed(turn: AwaitingAdvance) -> ToolCall | None:
    return next((call for _, call in tool_calls(turn.items) if call.is_malformed), None)


def _skipped_results(turn: AwaitingAdvance) -> UserMessage:
    skipped = {skip.position: skip.result for skip in turn.skipped}
    return UserMessage(
        content=tuple(
            skipped.get(position) or text_result(call, NOT_EXECUTED)
            for position, call in tool_calls(turn.items)
        )
    )


def _slots(turn: AwaitingAdvance) -> tuple[Slot, ...]:
    internal = {known.position: known.internal_call_id for known in turn.internal_call_ids}
    return tuple(
        Slot(position=position, tool_call=call, internal_call_id=internal.get(position))
        for position, call in tool_calls(turn.items)
    )
