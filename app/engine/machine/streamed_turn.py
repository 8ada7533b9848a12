"""Streamed turns as the run sees them: the record of a call, the finished turn, a turn cut short.

The run never sees a stream item. It is told when a terminal record arrived, when a turn was
assembled, and when an invalid call stopped the assembly (agent-run.md 5.8 to 5.10 and 8.3). An
abandoned turn may still owe its record, because its stream is drained after the decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, assert_never

from app.engine.commands import CompletionCall, Ignore, Repair, Retry, Skip
from app.engine.errors import PromptError
from app.engine.history import text_result
from app.engine.machine.invalid_calls import InvalidCall, decide
from app.engine.machine.record import AwaitingAdvance, AwaitingModel, PreparingRequest
from app.engine.machine.transition import Raised
from app.engine.messages import AssistantMessage, AssistantText, UserMessage
from app.engine.streaming.items import (
    Ignored,
    PartialStreamedTurn,
    Repaired,
    StreamedInvalidToolCall,
    TurnAbandoned,
)
from app.engine.texts import NOT_EXECUTED
from app.engine.turn_content import tool_calls
from app.engine.usage import Usage

if TYPE_CHECKING:
    from app.engine.commands import InvalidToolCallAction
    from app.engine.machine.record import RunRecord
    from app.engine.machine.transition import Transition
    from app.engine.messages import AssistantContent
    from app.engine.streaming.items import StreamedResolution, StreamedTurn

RECORD = "record_streamed_completion_call"


def take_record(record: RunRecord, call: CompletionCall) -> RunRecord:
    """Bill a streamed call; legal once per attempt, also after its turn was abandoned."""
    match record.state:
        case AwaitingModel(recorded=False):
            return record.recording(call).entering(AwaitingModel(recorded=True))
        case AwaitingModel():
            raise record.violation(f"{RECORD} called twice for one model call")
        case PreparingRequest(rollback_owed=True):
            return record.recording(call).entering(PreparingRequest())
        case _:
            raise record.violation(f"{RECORD} called without a pending or rolled-back CallModel")


def take_streamed_turn(record: RunRecord, turn: StreamedTurn) -> Transition[None]:
    """Accept an assembled turn, or fail on the first name that is not allowed."""
    state = _awaiting(record, "streamed_turn")
    policy = record.effective_policy(turn.policy)
    if not state.recorded:
        record = record.recording(_unbilled(record, turn))
    for _, call in tool_calls(turn.choice):
        if not policy.allows(call.name):
            invalid = InvalidCall(
                call=call,
                policy=policy,
                history=record.diagnostic_history(turn.choice, turn.message_id),
                args=call.arguments_text,
                is_streaming=True,
            )
            return Raised(record.failed(), invalid.error(call.name))
    accepted = AwaitingAdvance(
        message_id=turn.message_id,
        items=turn.choice,
        policy=policy,
        internal_call_ids=turn.internal_call_ids,
    )
    return record.pinning(policy.output_tool).entering(accepted), None


class StoppedStream(NamedTuple):
    """A stream as far as it came, and the invalid call it stopped at."""

    partial: PartialStreamedTurn
    invalid: StreamedInvalidToolCall

    def content(self) -> tuple[AssistantContent, ...]:
        """What the model has said, the invalid call last."""
        text = (AssistantText(text=self.partial.text),) if self.partial.text else ()
        calls = (*self.partial.tool_calls, self.invalid.tool_call)
        return (*self.partial.reasoning, *text, *calls)

    def messages(self, text: str) -> tuple[AssistantMessage, UserMessage]:
        """The turn and its results, `text` being the one of the invalid call."""
        results = [text_result(call, NOT_EXECUTED) for call in self.partial.tool_calls]
        results.append(text_result(self.invalid.tool_call, text))
        return (
            AssistantMessage(id=self.partial.message_id, content=self.content()),
            UserMessage(content=tuple(results)),
        )


def invalid_call(record: RunRecord, stream: StoppedStream) -> InvalidCall:
    """The call a stream stopped at, with the turn as far as it came."""
    return InvalidCall(
        call=stream.invalid.tool_call,
        policy=record.effective_policy(stream.invalid.policy),
        history=record.diagnostic_history(stream.content(), stream.partial.message_id),
        args=stream.invalid.args,
        internal_call_id=stream.invalid.internal_call_id,
        is_streaming=True,
    )


def resolve_streamed(
    record: RunRecord, stream: StoppedStream, *, action: InvalidToolCallAction
) -> Transition[StreamedResolution]:
    """Apply a decision mid-stream; repair and ignore leave the run as it is."""
    owed = not _awaiting(record, "resolve_streamed_invalid_tool_call").recorded
    invalid = invalid_call(record, stream)
    pinned = record.pinning(invalid.policy.output_tool)
    decided = decide(record, invalid, action=action)
    match decided:
        case PromptError():
            return Raised(pinned.failed(), decided)
        case Repair(tool_name=name):
            return record, Repaired(tool_name=name)
        case Ignore():
            return record, Ignored()
        case Retry(feedback=text):
            pinned = pinned.counting(
                invalid_tool_call_retries=record.counters.invalid_tool_call_retries + 1
            )
            resolution = TurnAbandoned()
        case Skip(reason=text):
            result = text_result(stream.invalid.tool_call, text)
            resolution = TurnAbandoned(skipped_tool_result=result)
        case _:
            assert_never(decided)
    abandoned = PreparingRequest(rollback_owed=owed)
    return pinned.entering(abandoned, *stream.messages(text)), resolution


def _awaiting(record: RunRecord, method: str) -> AwaitingModel:
    if not isinstance(record.state, AwaitingModel):
        raise record.violation(f"{method} called without a pending CallModel")
    return record.state


def _unbilled(record: RunRecord, turn: StreamedTurn) -> CompletionCall:
    return CompletionCall(
        call_index=len(record.completion_calls),
        usage=Usage(),
        message_id=turn.message_id,
        finish_reason=turn.finish_reason,
        raw=None,
    )
