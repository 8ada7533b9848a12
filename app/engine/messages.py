"""Messages of a run and what they hold: text, tool calls, reasoning, media, tool results.

Nothing here decides anything; who may call what is `turn_policy`, what happens next `agent_run`.

- Every value is frozen and may be shared. JSON inside a value is frozen as well (`json.text`).
- `ToolCall.from_wire` is the only way from a provider's call to ours: it supplies a missing id and
  keeps arguments that are not a JSON object as the text that was sent.
- `ToolCall.provider` serves the replay to the provider. It is never compared.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from app.engine.json.text import (
    JsonObject,
    JsonValue,
    compact_json,
    freeze_object,
    malformed_error,
    parse_json,
)
from app.engine.value import NonEmpty, Value


def _absent_if_empty(params: object) -> object:
    return None if params == {} else params


AdditionalParams = Annotated[JsonObject | None, BeforeValidator(_absent_if_empty)]


class ProviderIds(Value):
    """The ids under which the provider knows a call."""

    call_id: NonEmpty
    item_id: str | None = None


class Function(Value):
    """The name and the arguments of a call; text that was no JSON object is kept as sent."""

    name: str
    arguments: JsonObject
    invalid_arguments: str | None = None

    @model_validator(mode="after")
    def _malformed_text_is_malformed(self) -> Function:
        if self.invalid_arguments is not None and (self.arguments or self.error is None):
            raise ValueError("invalid_arguments: expected text that is not a JSON object")
        return self

    @property
    def error(self) -> str | None:
        """What is wrong with the arguments; None if they are a JSON object."""
        return None if self.invalid_arguments is None else malformed_error(self.invalid_arguments)


class AssistantText(Value):
    """Text of the model."""

    type: Literal["text"] = "text"
    text: str
    additional_params: AdditionalParams = None


class ToolCall(Value):
    """One use of a tool that the model asks for."""

    type: Literal["tool_call"] = "tool_call"
    id: NonEmpty
    provider: ProviderIds | None = None
    function: Function
    signature: str | None = None
    additional_params: AdditionalParams = None

    @classmethod
    def from_wire(
        cls,
        wire_id: str | None,
        name: str,
        raw_arguments: object,
        *,
        turn: int,
        position: int,
        item_id: str | None = None,
    ) -> ToolCall:
        """The call a provider sent at `position` (from 0) of the content of `turn`."""
        function = _function_from_wire(name, raw_arguments)
        if not wire_id:
            return cls(id=f"local-{turn}-{position}", function=function)
        return cls(
            id=wire_id, provider=ProviderIds(call_id=wire_id, item_id=item_id), function=function
        )

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.function.name

    @property
    def is_malformed(self) -> bool:
        """Whether the arguments were not a JSON object."""
        return self.function.invalid_arguments is not None

    @property
    def arguments_text(self) -> str:
        """The arguments as compact JSON, or as sent if they are malformed."""
        sent = self.function.invalid_arguments
        return compact_json(self.function.arguments) if sent is None else sent

    def renamed(self, name: str) -> ToolCall:
        """The same call of another tool."""
        return self.model_copy(update={"function": self.function.model_copy(update={"name": name})})


def _function_from_wire(name: str, raw: object) -> Function:
    if isinstance(raw, str) and not raw.strip():
        return Function(name=name, arguments={})
    try:
        return Function(
            name=name,
            arguments=freeze_object(parse_json(raw) if isinstance(raw, str) else raw),
        )
    except ValueError:
        # A value that was no text has no text as sent; its JSON is what the model gets to see.
        text = raw if isinstance(raw, str) else json.dumps(raw, separators=(",", ":"))
        return Function(name=name, arguments={}, invalid_arguments=text)


class ReasoningText(Value):
    """Reasoning in the open."""

    type: Literal["text"] = "text"
    text: str
    signature: str | None = None


class ReasoningSummary(Value):
    """A summary of reasoning."""

    type: Literal["summary"] = "summary"
    text: str
    signature: str | None = None


class ReasoningEncrypted(Value):
    """Reasoning only its provider can read."""

    type: Literal["encrypted"] = "encrypted"
    text: str
    signature: str | None = None


class ReasoningRedacted(Value):
    """Reasoning its provider withheld."""

    type: Literal["redacted"] = "redacted"
    text: str
    signature: str | None = None


ReasoningPart = Annotated[
    ReasoningText | ReasoningSummary | ReasoningEncrypted | ReasoningRedacted,
    Field(discriminator="type"),
]


class Reasoning(Value):
    """One block of reasoning, passed through untouched."""

    type: Literal["reasoning"] = "reasoning"
    id: str | None = None
    content: tuple[ReasoningPart, ...]


class AssistantImage(Value):
    """An image the model made; `source` is a URL or a data URL."""

    type: Literal["image"] = "image"
    media_type: str | None = None
    source: str


AssistantContent = Annotated[
    AssistantText | ToolCall | Reasoning | AssistantImage, Field(discriminator="type")
]


class ToolResultText(Value):
    """A result as text, stored verbatim and never parsed."""

    type: Literal["text"] = "text"
    text: str


class ToolResultJson(Value):
    """A result as a JSON value."""

    type: Literal["json"] = "json"
    value: JsonValue


class ToolResultImage(Value):
    """A result as an image."""

    type: Literal["image"] = "image"
    media_type: str | None = None
    source: str


ToolResultContent = Annotated[
    ToolResultText | ToolResultJson | ToolResultImage, Field(discriminator="type")
]


class UserText(Value):
    """Text of the user, or of the engine speaking to the model."""

    type: Literal["text"] = "text"
    text: str


class ToolResult(Value):
    """What came of one call; `call` is the id of that call."""

    type: Literal["tool_result"] = "tool_result"
    call: NonEmpty
    provider: ProviderIds | None = None
    name: str
    content: tuple[ToolResultContent, ...] = Field(min_length=1)

    @classmethod
    def of(cls, call: ToolCall, content: tuple[ToolResultContent, ...]) -> ToolResult:
        """The result of `call`: everything but the content is taken from the call."""
        return cls(call=call.id, provider=call.provider, name=call.name, content=content)


class UserImage(Value):
    """An image of the user."""

    type: Literal["image"] = "image"
    media_type: str | None = None
    source: str


class UserAudio(Value):
    """A sound of the user."""

    type: Literal["audio"] = "audio"
    media_type: str | None = None
    source: str


class UserVideo(Value):
    """A film of the user."""

    type: Literal["video"] = "video"
    media_type: str | None = None
    source: str


class UserDocument(Value):
    """A document of the user."""

    type: Literal["document"] = "document"
    media_type: str | None = None
    source: str


UserContent = Annotated[
    UserText | ToolResult | UserImage | UserAudio | UserVideo | UserDocument,
    Field(discriminator="type"),
]


class SystemMessage(Value):
    """Instructions."""

    role: Literal["system"] = "system"
    text: str


class UserMessage(Value):
    """What the model is told: by a person, by tools, or by the engine."""

    role: Literal["user"] = "user"
    content: tuple[UserContent, ...] = Field(min_length=1)

    @classmethod
    def of_text(cls, text: str) -> UserMessage:
        """A message of one text."""
        return cls(content=(UserText(text=text),))


class AssistantMessage(Value):
    """What the model said; `id` is the provider's id of the message."""

    role: Literal["assistant"] = "assistant"
    id: str | None = None
    content: tuple[AssistantContent, ...] = Field(min_length=1)


Message = Annotated[SystemMessage | UserMessage | AssistantMessage, Field(discriminator="role")]
