"""What can be read from a run, in any state and without changing it (agent-run.md 5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from typing_extensions import override

from app.engine.commands import InvalidToolCallContext, PendingToolCall, PromptResponse
from app.engine.errors import PromptCancelled
from app.engine.expect import require
from app.engine.machine import advance, model_turn, streamed_turn, tool_batch
from app.engine.machine.record import (
    AwaitingAdvance,
    AwaitingModel,
    ExecutingTools,
    RunDone,
    RunRecord,
)
from app.engine.machine.stored import write_run, write_run_text
from app.engine.streaming.items import PartialStreamedTurn, StreamedInvalidToolCall
from app.engine.turn_content import is_empty_turn
from app.engine.turn_policy import TurnPolicy

if TYPE_CHECKING:
    from app.engine.commands import CompletionCall, RunEntry
    from app.engine.messages import AssistantContent, Message, UserMessage
    from app.engine.usage import Usage


class RunView:
    """A run as its readers see it."""

    def __init__(self, record: RunRecord, *, restored: bool = False) -> None:
        """Not for drivers, who call `AgentRun.new` or `AgentRun.load`."""
        self._record = record
        # Kept in memory only: a run loaded while a model call was out may ask for it again once,
        # and the response that `Done` carried knows how often the output tool was called.
        self._restored = restored and isinstance(record.state, AwaitingModel)
        self._response: PromptResponse | None = None

    def usage(self) -> Usage:
        """The sum over all completed model calls."""
        return self._record.usage

    def turn(self) -> int:
        """Turns begun so far, retries included, re-issues not."""
        return self._record.turn

    def completion_calls(self) -> tuple[CompletionCall, ...]:
        """One record per completed model call, in order."""
        return self._record.completion_calls

    def messages(self) -> tuple[Message, ...]:
        """The prompt and what this run appended; an open batch is not closed here."""
        return self._record.messages

    def full_history(self) -> tuple[Message, ...]:
        """Input history and messages, an open batch closed; always canonical."""
        return self._record.full_history()

    def input_history(self) -> tuple[Message, ...]:
        """The history before the prompt."""
        return self._record.input_history

    def state(self) -> str:
        """The name of the state."""
        return self._record.state.name

    def is_done(self) -> bool:
        """Whether the run ended well."""
        return isinstance(self._record.state, RunDone)

    def response(self) -> PromptResponse | None:
        """The outcome of a run that is done."""
        if self._response is not None or not isinstance(self._record.state, RunDone):
            return self._response
        return advance.response(self._record, self._record.state)

    def initial_prompt(self) -> UserMessage | None:
        """The prompt, while the run has not started."""
        return self._record.prompt() if self._record.turn == 0 else None

    def accepted_turn(self) -> tuple[AssistantContent, ...] | None:
        """The content of a turn that is accepted and not in history yet; None if empty."""
        state = self._record.state
        if not isinstance(state, AwaitingAdvance) or is_empty_turn(state.items):
            return None
        return state.items

    def pending_tool_calls(self) -> tuple[PendingToolCall, ...]:
        """The open calls of the batch, in call order."""
        return tool_batch.pending_calls(self._record)

    def pending_invalid_tool_call(self) -> InvalidToolCallContext | None:
        """The call the run is parked on, also after a load."""
        parked = model_turn.parked_call(self._record)
        return None if parked is None else parked.context()

    def projection_start(self) -> int:
        """Where a host starts to show `messages`: at the open batch, else at the end."""
        is_open = isinstance(self._record.state, ExecutingTools)
        return len(self._record.messages) - int(is_open)

    def output_tool_name(self) -> str | None:
        """The pinned output tool."""
        return self._record.config.output_tool_name

    def previous_model(self) -> str | None:
        """The model last set by the host."""
        return self._record.previous_model

    def entries(self) -> tuple[RunEntry, ...]:
        """The records of the host, in order."""
        return self._record.entries

    def effective_policy(self, policy: TurnPolicy) -> TurnPolicy:
        """The policy with every default of the run filled in."""
        require(TurnPolicy, policy=policy)
        return self._record.effective_policy(policy)

    def cancel_error(self, reason: str) -> PromptCancelled:
        """The error for a driver to raise when it stops; the run stays as it is."""
        require(str, reason=reason)
        return PromptCancelled(reason, chat_history=self._record.full_history())

    def malformed_tool_call_context(
        self, call: PendingToolCall, is_streaming: bool = False
    ) -> InvalidToolCallContext:
        """What is known about a malformed call, up to the turn that holds it."""
        require(PendingToolCall, call=call)
        if call.kind != "malformed":
            raise ValueError("call: expected a malformed call")
        return tool_batch.malformed_context(self._record, call, is_streaming=is_streaming)

    def streamed_invalid_tool_call_context(
        self, partial: PartialStreamedTurn, invalid: StreamedInvalidToolCall
    ) -> InvalidToolCallContext:
        """What is known about the call a stream stopped at."""
        require(PartialStreamedTurn, partial=partial)
        require(StreamedInvalidToolCall, invalid=invalid)
        stream = streamed_turn.StoppedStream(partial, invalid)
        return streamed_turn.invalid_call(self._record, stream).context()

    def dump(self) -> dict[str, object]:
        """The run as a document in plain JSON types. It holds the whole conversation."""
        return write_run(self._record)

    def dump_json(self) -> str:
        """The document as text."""
        return write_run_text(self._record)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunView) and self._record == other._record

    @override
    def __hash__(self) -> NoReturn:
        """A run changes, so it has no hash."""
        raise TypeError("a run cannot be hashed")

    @override
    def __repr__(self) -> str:
        record = self._record
        return (
            f"<{type(self).__name__} {self.state()} turn={record.turn} "
            f"messages={len(record.messages)} calls={len(record.completion_calls)}>"
        )
