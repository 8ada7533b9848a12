"""The open tool batch: which calls wait, how answers come in, and when it is committed.

Answers may arrive in any order and grouping; history always has them in call order, in one user
message. A result is matched by id and, where ids repeat, by order of occurrence (`tool_results`),
or by turn and position (`answer_tool_calls`). Only its content is taken from the driver: name, id
and provider are the call's own.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, assert_never

from app.engine import texts
from app.engine.commands import (
    CallTools,
    Fail,
    Ignore,
    InvalidToolCallContext,
    PendingToolCall,
    Repair,
    Retry,
    Skip,
    Stop,
)
from app.engine.errors import CompletionError, PromptCancelled
from app.engine.history import text_result
from app.engine.machine.record import ExecutingTools, PreparingRequest, RunFailed, Slot
from app.engine.machine.transition import Raised
from app.engine.messages import ToolCall, ToolResult

if TYPE_CHECKING:
    from app.engine.commands import ToolAnswer
    from app.engine.machine.record import RunRecord
    from app.engine.machine.transition import Transition
    from app.engine.messages import UserContent


def pending_calls(record: RunRecord) -> tuple[PendingToolCall, ...]:
    """The open calls of the batch, in call order."""
    if not isinstance(record.state, ExecutingTools):
        return ()
    return tuple(
        PendingToolCall.of(
            slot.tool_call,
            turn=record.turn,
            position=slot.position,
            internal_call_id=slot.internal_call_id,
        )
        for slot in record.state.slots
        if slot.answer is None
    )


def call_tools(record: RunRecord) -> CallTools:
    """The command for the open calls."""
    return CallTools(
        turn=record.turn,
        calls=pending_calls(record),
        final_turn=record.turn >= record.config.max_turns,
    )


def malformed_context(
    record: RunRecord, call: PendingToolCall, *, is_streaming: bool
) -> InvalidToolCallContext:
    """What is known about a malformed call; its history ends at the turn that holds it."""
    policy = record.state.policy if isinstance(record.state, ExecutingTools) else None
    return InvalidToolCallContext(
        tool_name=call.tool_call.name,
        reason="malformed_arguments",
        error=call.error,
        tool_call_id=call.tool_call.id,
        internal_call_id=call.internal_call_id,
        args=call.tool_call.arguments_text,
        available_tools=policy.executable_tools if policy else (),
        allowed_tools=policy.allowed_tools if policy else (),
        tool_choice=policy.tool_choice if policy else None,
        chat_history=record.input_history + record.messages,
        is_streaming=is_streaming,
    )


def take_results(record: RunRecord, results: tuple[UserContent, ...]) -> RunRecord:
    """Close the batch with one result for every open executable call."""
    batch = _open_batch(record, "tool_results")
    waiting = _waiting(batch)
    if waiting and not results:
        raise record.violation("the driver produced no tool results")
    given: dict[int, ToolResult] = {}
    for result in _only_results(record, results):
        if not waiting.get(result.call):
            raise record.violation(_unfit(batch, result.call))
        given[waiting[result.call].popleft()] = result
    if unanswered := [call for call, positions in waiting.items() for _ in positions]:
        listed = ", ".join(f"`{call}`" for call in unanswered)
        raise record.violation(f"unanswered tool calls: {listed}")
    closed = tuple(_closed(slot, given.get(slot.position)) for slot in batch.slots)
    return _commit(record, batch, slots=closed)


def take_answers(record: RunRecord, answers: tuple[ToolAnswer, ...]) -> Transition[None]:
    """Store the answers of any open calls; all of them or none."""
    batch = _open_batch(record, "answer_tool_calls")
    slots = {slot.position: slot for slot in batch.slots}
    given: dict[int, ToolAnswer] = {}
    for answer in answers:
        _require_fit(record, answer, slot=slots.get(answer.position))
        if answer.position in given:
            raise record.violation(f"the call at position {answer.position} is already answered")
        given[answer.position] = answer
    answered = tuple(_answered(slot, given.get(slot.position)) for slot in batch.slots)
    for slot in batch.slots:
        answer_given = given.get(slot.position)
        if answer_given is not None and isinstance(answer_given.action, Stop | Fail | Repair):
            ending = _Ending(slot.tool_call, answer_given.action)
            return _ended(record, batch, slots=answered, ending=ending)
    return _commit(record, batch, slots=answered), None


class _Ending(NamedTuple):
    call: ToolCall
    action: Stop | Fail | Repair


def _open_batch(record: RunRecord, method: str) -> ExecutingTools:
    if not isinstance(record.state, ExecutingTools):
        raise record.violation(f"{method} called without a pending CallTools")
    return record.state


def _waiting(batch: ExecutingTools) -> dict[str, deque[int]]:
    """The positions of the open executable calls by id, in call order."""
    waiting: dict[str, deque[int]] = {}
    for slot in batch.slots:
        if slot.answer is None and not slot.tool_call.is_malformed:
            waiting.setdefault(slot.tool_call.id, deque()).append(slot.position)
    return waiting


def _only_results(record: RunRecord, results: tuple[UserContent, ...]) -> list[ToolResult]:
    found = [result for result in results if isinstance(result, ToolResult)]
    if len(found) < len(results):
        raise record.violation("content that is not a tool result was given as one")
    return found


def _unfit(batch: ExecutingTools, call: str) -> str:
    same_id = [slot for slot in batch.slots if slot.tool_call.id == call]
    if not same_id:
        return f"`{call}` is not a call of this turn"
    if all(slot.tool_call.is_malformed for slot in same_id):
        return f"`{call}` is malformed and was not to be executed"
    return f"`{call}` is already answered"


def _require_fit(record: RunRecord, answer: ToolAnswer, *, slot: Slot | None) -> None:
    where = f"position {answer.position}"
    if answer.turn != record.turn:
        raise record.violation(f"an answer of turn {answer.turn} was given in turn {record.turn}")
    if slot is None or slot.tool_call.id != answer.call:
        raise record.violation(f"there is no call `{answer.call}` at {where}")
    if slot.answer is not None:
        raise record.violation(f"the call at {where} is already answered")
    if slot.tool_call.is_malformed != (answer.content is None):
        raise record.violation(f"the answer to the call at {where} is of the wrong kind")


def _answered(slot: Slot, answer: ToolAnswer | None) -> Slot:
    """The slot with its answer; an action that ends the run is none."""
    if answer is None:
        return slot
    if answer.content is not None:
        return _filled(slot, ToolResult.of(slot.tool_call, answer.content))
    match answer.action:
        case None | Ignore():
            return _filled(slot, _malformed_result(slot.tool_call))
        case Retry(feedback=text) | Skip(reason=text):
            return _filled(slot, text_result(slot.tool_call, text))
        case Stop() | Fail() | Repair():
            return slot
        case _:
            assert_never(answer.action)


def _closed(slot: Slot, result: ToolResult | None) -> Slot:
    if slot.answer is not None:
        return slot
    if result is None:
        return _filled(slot, _malformed_result(slot.tool_call))
    return _filled(slot, ToolResult.of(slot.tool_call, result.content))


def _filled(slot: Slot, answer: ToolResult) -> Slot:
    return slot.model_copy(update={"answer": answer})


def _malformed_result(call: ToolCall) -> ToolResult:
    return text_result(call, texts.malformed(call.name, call.function.error or ""))


def _commit(record: RunRecord, batch: ExecutingTools, *, slots: tuple[Slot, ...]) -> RunRecord:
    answered = batch.model_copy(update={"slots": slots})
    if any(slot.answer is None for slot in slots):
        return record.entering(answered)
    return record.entering(PreparingRequest(), answered.closing_message())


def _ended(
    record: RunRecord, batch: ExecutingTools, *, slots: tuple[Slot, ...], ending: _Ending
) -> Transition[None]:
    closing = batch.model_copy(update={"slots": slots}).closing_message()
    ended = record.entering(RunFailed(), closing)
    if isinstance(ending.action, Stop):
        reason = ending.action.reason
        return Raised(ended, PromptCancelled(reason, chat_history=ended.full_history()))
    function = ending.call.function
    error = CompletionError(
        "response",
        f"the arguments of tool `{function.name}` are not a JSON object: {function.error}",
        chat_history=ended.full_history(),
        content=tuple(slot.tool_call for slot in slots),
    )
    return Raised(ended, error)
