"""`StreamedTurnAssembler`: the items of one streamed attempt become one turn (agent-run.md 8.2).

How to drive it:

1. One assembler per attempt, built from `run.effective_policy(policy)`.
2. `ingest` every item and act on every event it returns, in order.
3. On `InvalidToolCall`: take `partial_turn`, let the run resolve, hand its resolution to
   `resolve_pending_invalid`. Until then nothing else is taken in.
4. At the end of the stream: `finish`. Its turn goes into `run.streamed_turn`.

`ingest` runs once per token: text is collected in a list and joined when somebody asks. Reasoning
is `reasoning`, calls are `calls`, the stored form is `stored`. A method that raises has changed
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from pydantic import TypeAdapter, ValidationError

from app.engine.document import read_document, write_document
from app.engine.errors import CompletionError
from app.engine.expect import members, require
from app.engine.messages import AssistantContent, AssistantImage, AssistantText, ToolCall
from app.engine.streaming.calls import StreamedCalls
from app.engine.streaming.items import (
    Completed,
    EmitIngested,
    FinalItem,
    InternalCallId,
    PartialStreamedTurn,
    ReasoningDeltaItem,
    ReasoningItem,
    StreamedResolution,
    StreamedTurn,
    TextItem,
    ToolCallArgumentsItem,
    ToolCallItem,
    ToolCallNameItem,
    UnknownItem,
)
from app.engine.streaming.reasoning import ReasoningParts
from app.engine.streaming.stored import AssemblerDocument
from app.engine.turn_policy import TurnPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.engine.streaming.calls import Events
    from app.engine.streaming.items import StreamItem
    from app.engine.usage import FinishReason

KIND: Final = "streamed_turn_assembler"
_RESOLUTION: Final = members(StreamedResolution)
_FORWARD: Final[Events] = (EmitIngested(),)
_ASSISTANT_CONTENT: Final[TypeAdapter[AssistantContent]] = TypeAdapter(AssistantContent)


class StreamedTurnAssembler:
    """The turn of one streamed attempt, as far as it has arrived."""

    __slots__ = (
        "_calls",
        "_chunks",
        "_excluded",
        "_finish_reason",
        "_policy",
        "_reasoning",
        "_saw_text",
    )

    def __init__(self, policy: TurnPolicy) -> None:
        require(TurnPolicy, policy=policy)
        self._policy = policy
        self._chunks: list[str] = []
        self._saw_text = False
        self._reasoning = ReasoningParts()
        self._calls = StreamedCalls(policy)
        self._finish_reason: FinishReason | None = None
        self._excluded = 0

    def ingest(self, item: StreamItem) -> Events:
        """Take one item in. Raises `CompletionError` while a call awaits its decision."""
        if self._calls.is_parked:
            raise _awaits_resolution()
        # The order is that of frequency: a type further down costs a failed test each.
        match item:
            case TextItem():
                self._append_text(item.text)
            case ToolCallArgumentsItem():
                return self._calls.arguments(item)
            case ReasoningDeltaItem():
                self._reasoning.append(item)
            case ReasoningItem():
                self._reasoning.complete(item)
            case ToolCallNameItem():
                return self._calls.name(item)
            case ToolCallItem():
                return self._calls.complete(item)
            case UnknownItem():
                self._excluded += _is_assistant_content(item.payload)
            case FinalItem():
                return self._complete(item)
            case _:
                assert_never(item)
        return _FORWARD

    def aggregated_text(self) -> str:
        """The text since the start, or since the first text after a terminal record."""
        return "".join(self._chunks)

    def aggregated_reasoning(self, correlator: str) -> str | None:
        """The text of the correlator's pending reasoning; None if nothing is pending."""
        return self._reasoning.aggregated(correlator)

    def excluded_assistant_content(self) -> int:
        """How many unknown payloads were content of the model that the turn will lack."""
        return self._excluded

    def pending_delta_error(self) -> CompletionError | None:
        """The error a terminal record would raise now."""
        return self._calls.nameless_error()

    def partial_turn(self, message_id: str | None = None) -> PartialStreamedTurn:
        """What has arrived so far, without the call that awaits its decision."""
        return PartialStreamedTurn(
            message_id=message_id,
            text=self.aggregated_text() if self._saw_text else None,
            reasoning=self._reasoning.content(),
            tool_calls=tuple(kept.tool_call for kept in self._calls.kept),
        )

    def resolve_pending_invalid(self, resolution: StreamedResolution) -> Events:
        """Go on after the run has decided on the parked call. Raises if none is parked."""
        require(_RESOLUTION, resolution=resolution)
        return self._calls.resolve(resolution)

    def finish(
        self, message_id: str | None, provider_choice: Iterable[AssistantContent]
    ) -> StreamedTurn:
        """The whole turn; `provider_choice` is the content as the provider aggregated it."""
        if self._calls.is_parked:
            raise _awaits_resolution()
        content = self._content_before_calls(tuple(provider_choice))
        kept = self._calls.kept
        return StreamedTurn(
            message_id=message_id,
            choice=content + tuple(one.tool_call for one in kept),
            policy=self._policy,
            internal_call_ids=tuple(
                InternalCallId(position=position, internal_call_id=one.internal_call_id)
                for position, one in enumerate(kept, start=len(content))
            ),
            finish_reason=self._finish_reason,
        )

    def dump(self) -> dict[str, object]:
        """The assembler as a JSON-ready document; possible at any moment, also while parked."""
        document = AssemblerDocument(
            policy=self._policy,
            text=self.aggregated_text(),
            saw_text=self._saw_text,
            reasoning=self._reasoning.dump(),
            calls=self._calls.dump(),
            finish_reason=self._finish_reason,
            excluded=self._excluded,
        )
        return write_document(KIND, document)

    @classmethod
    def load(cls, data: object) -> StreamedTurnAssembler:
        """The assembler of a document, given as JSON text or as a mapping.

        Raises `UnsupportedRunFormat` for another format, `InvalidRunDocument` for all else.
        """
        document = read_document(data, KIND, model=AssemblerDocument)
        assembler = cls(document.policy)
        assembler._chunks = [document.text] if document.text else []
        assembler._saw_text = document.saw_text
        assembler._reasoning = ReasoningParts.load(document.reasoning)
        assembler._calls = StreamedCalls.load(document.policy, document.calls)
        assembler._finish_reason = document.finish_reason
        assembler._excluded = document.excluded
        return assembler

    def _append_text(self, text: str) -> None:
        if not self._saw_text:
            self._chunks.clear()
            self._saw_text = True
        self._chunks.append(text)

    def _complete(self, item: FinalItem) -> Events:
        if (error := self.pending_delta_error()) is not None:
            raise error
        emit_final = self._saw_text
        self._finish_reason = item.finish_reason
        self._saw_text = False
        return (
            Completed(usage=item.usage, emit_final=emit_final, finish_reason=item.finish_reason),
        )

    def _content_before_calls(
        self, provider_choice: tuple[AssistantContent, ...]
    ) -> tuple[AssistantContent, ...]:
        reasoning = self._reasoning.content()
        if reasoning or self._calls.kept:
            return (
                *reasoning,
                *(part for part in provider_choice if _is_worth_keeping(part)),
                *(part for part in provider_choice if isinstance(part, AssistantImage)),
            )
        if self._calls.has_ignored:
            # The provider's own list still holds the call that was decided to be left out.
            return tuple(part for part in provider_choice if not isinstance(part, ToolCall))
        return provider_choice


def _is_worth_keeping(part: AssistantContent) -> bool:
    return isinstance(part, AssistantText) and (
        part.text != "" or part.additional_params is not None
    )


def _awaits_resolution() -> CompletionError:
    return CompletionError("response", "an invalid streamed tool call awaits resolution")


def _is_assistant_content(payload: object) -> bool:
    """Whether a payload is content of the model under a tag or with annotations of ours."""
    if not isinstance(payload, dict):
        return False
    if isinstance(payload.get("text"), str) and "additional_params" in payload:
        return True
    try:
        _ASSISTANT_CONTENT.validate_python(payload, strict=False, extra="ignore")
    except ValidationError:
        return False
    return True
