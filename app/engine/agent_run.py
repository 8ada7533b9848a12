"""`AgentRun`: the machine that decides what happens next in one run. It performs nothing itself.

Pull one command, perform it, feed the outcome to the one method that takes it, repeat:

    run = AgentRun.new("What is 1 + 1?").max_turns(4)
    while True:
        match run.next_step():
            case CallModel() as ask:
                outcome = run.model_response(send(ask.history, ask.prompt))
                while isinstance(outcome, NeedsResolution):
                    outcome = run.resolve_invalid_tool_call(decide(outcome.context))
            case CallTools() as batch:
                run.answer_tool_calls([perform(call) for call in batch.calls])
            case Done(response=response):
                return response

- A method called out of turn raises `ProtocolViolation` and changes nothing. A failure of the run
  is raised once, and the run is then `failed` for good.
- A run is one immutable `RunRecord`; each method puts the next record in its place. What a caller
  gets is shared with the run and cannot be changed (`json.text`), so nothing needs copying.
- `dump` at any time and `load` gives an equal run that drives the same, except that a model call
  which was out when the run was dumped is asked for again.
- A wrong argument is a `ValueError`, before the state is looked at.

Inside the machine one model call and the handling of its answer is a *turn*; the rest of Turngate
says *step* (agent-run.md 1). The states are in `machine.record`, and who moves between them is in
`advance`, `model_turn`, `streamed_turn`, `tool_batch` and `accepted_turn` beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from app.engine.commands import (
    AgentRunStep,
    CallModel,
    CompletionCall,
    Done,
    InvalidToolCallAction,
    ModelTurn,
    RetryRequest,
    RunEntry,
    ToolAnswer,
)
from app.engine.expect import members, require, require_all
from app.engine.machine import (
    accepted_turn,
    advance,
    model_request,
    model_turn,
    streamed_turn,
    tool_batch,
)
from app.engine.machine.builder import RunBuilder, as_prompt
from app.engine.machine.record import RunRecord
from app.engine.machine.stored import read_run
from app.engine.machine.transition import Raised
from app.engine.messages import AssistantContent, UserContent, UserMessage
from app.engine.streaming.items import PartialStreamedTurn, StreamedInvalidToolCall, StreamedTurn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from app.engine.commands import ModelTurnOutcome
    from app.engine.machine.transition import Transition
    from app.engine.streaming.items import StreamedResolution
    from app.engine.usage import FinishReason, Usage

T = TypeVar("T")
_ACTION = members(InvalidToolCallAction)
_REQUEST = members(RetryRequest)
_ASSISTANT_CONTENT = members(AssistantContent)
_USER_CONTENT = members(UserContent)


class AgentRun(RunBuilder):
    """One run of an agent."""

    @classmethod
    def new(cls, prompt: str | UserMessage) -> Self:
        """A run that will ask the model once, without history and without retries."""
        return cls(RunRecord(messages=(as_prompt(prompt),)))

    @classmethod
    def load(cls, data: str | bytes | Mapping[str, object]) -> Self:
        """The run of a document. Raises `UnsupportedRunFormat` or `InvalidRunDocument`."""
        return cls(read_run(data), restored=True)

    def clone(self) -> Self:
        """An independent equal run."""
        twin = type(self)(self._record)
        twin.clone_from(self)
        return twin

    def clone_from(self, other: AgentRun) -> None:
        """Become an equal, independent copy of another run."""
        require(AgentRun, other=other)
        self._record = other._record
        self._restored = other._restored
        self._response = other._response

    def next_step(self) -> AgentRunStep:
        """The next command. Raises the error the run ends with, or `MaxTurnsError`."""
        step = self._take(advance.next_step(self._record, restored=self._restored))
        self._restored = False
        if isinstance(step, Done):
            self._response = self._response or step.response
            return Done(response=self._response)
        return step

    def reissue(self) -> CallModel:
        """The pending model call again, free of charge. Drop the older attempt first."""
        self._record, command = model_request.reissue_turn(self._record)
        self._restored = False
        return command

    def model_response(self, turn: ModelTurn) -> ModelTurnOutcome:
        """Feed the complete answer of a model call."""
        require(ModelTurn, turn=turn)
        return self._take(model_turn.take_model_turn(self._record, turn))

    def resolve_invalid_tool_call(self, action: InvalidToolCallAction) -> ModelTurnOutcome:
        """Decide on the invalid call the run is parked on."""
        require(_ACTION, action=action)
        return self._take(model_turn.resolve(self._record, action))

    def resolve_unhandled_invalid_tool_call(self) -> ModelTurnOutcome:
        """Let the run decide on the invalid call as it was built to."""
        return self.resolve_invalid_tool_call(model_turn.unhandled_action(self._record))

    def retry_model_turn(self, request: RetryRequest) -> None:
        """Ask for the accepted turn again; refused for good if it holds tool calls."""
        require(_REQUEST, request=request)
        self._take(accepted_turn.retry_turn(self._record, request))

    def replace_accepted_turn(self, content: Sequence[AssistantContent]) -> None:
        """Put tool-free content in place of the accepted, tool-free turn."""
        require_all(_ASSISTANT_CONTENT, content=content)
        self._record = accepted_turn.replace_turn(self._record, tuple(content))

    def tool_results(self, results: Sequence[UserContent]) -> None:
        """Close the open batch with one result for every executable call, in any order."""
        require_all(_USER_CONTENT, results=results)
        self._record = tool_batch.take_results(self._record, tuple(results))

    def answer_tool_call(self, answer: ToolAnswer) -> None:
        """Answer one open call."""
        self.answer_tool_calls((answer,))

    def answer_tool_calls(self, answers: Sequence[ToolAnswer]) -> None:
        """Answer any of the open calls, all or none. The last answer commits the batch."""
        require_all(ToolAnswer, answers=answers)
        self._take(tool_batch.take_answers(self._record, tuple(answers)))

    def record_streamed_completion_call(
        self,
        usage: Usage,
        *,
        message_id: str | None = None,
        response_id: str | None = None,
        provider_request_id: str | None = None,
        finish_reason: FinishReason | None = None,
        raw: object = None,
    ) -> CompletionCall:
        """Bill a streamed model call from its terminal record, once per attempt."""
        call = CompletionCall(
            call_index=len(self._record.completion_calls),
            usage=usage,
            message_id=message_id,
            response_id=response_id,
            provider_request_id=provider_request_id,
            finish_reason=finish_reason,
            raw=raw,
        )
        self._record = streamed_turn.take_record(self._record, call)
        return call

    def streamed_turn(self, turn: StreamedTurn) -> None:
        """Feed a completely assembled turn; from here on it is like a buffered one."""
        require(StreamedTurn, turn=turn)
        self._take(streamed_turn.take_streamed_turn(self._record, turn))

    def resolve_streamed_invalid_tool_call(
        self,
        partial: PartialStreamedTurn,
        invalid: StreamedInvalidToolCall,
        action: InvalidToolCallAction,
    ) -> StreamedResolution:
        """Decide on the call a stream stopped at. The assembler must be told as well."""
        require(PartialStreamedTurn, partial=partial)
        require(StreamedInvalidToolCall, invalid=invalid)
        require(_ACTION, action=action)
        stream = streamed_turn.StoppedStream(partial, invalid)
        return self._take(streamed_turn.resolve_streamed(self._record, stream, action=action))

    def pin_output_tool(self, name: str | None) -> str | None:
        """Pin the output tool unless one is pinned; returns the pinned name."""
        self._reconfigured(output_tool_name=name)  # An empty name is refused, pinned or not.
        self._record = self._record.pinning(name)
        return self.output_tool_name()

    def append_entry(self, entry: RunEntry) -> None:
        """Keep a record of the host with the run."""
        require(RunEntry, entry=entry)
        self._record = self._record.with_entry(entry)

    def set_previous_model(self, name: str) -> None:
        """Note the model that is about to be asked."""
        require(str, name=name)
        self._record = self._record.with_previous_model(name)

    def _take(self, transition: Transition[T]) -> T:
        """Put the next record in place; raise if the step ended in an error."""
        if isinstance(transition, Raised):
            self._record = transition.record
            raise transition.error
        self._record, outcome = transition
        return outcome
