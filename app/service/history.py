"""The messages of earlier runs, folded from the log, as the input history of a new one.

A run that has ended left every call with its result, so what is folded here is canonical in the
sense of agent-run.md 9.2. The log is immutable: the same range gives the same history, always.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from app.engine.json_text import parse_json
from app.engine.messages import (
    AssistantMessage,
    AssistantText,
    ToolCall,
    ToolResult,
    ToolResultJson,
    ToolResultText,
    UserMessage,
    UserText,
)
from app.engine.output_tool import answer_content
from app.log.payload import delegation_of
from app.turn.reply import decode_reply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.engine.messages import Message, ToolResultContent
    from app.log.envelope import Event

HISTORY_EVENTS: Final = (
    "run.started",
    "message.user",
    "message.assistant",
    "tool.completed",
    "tool.failed",
    "tool.settled",
)


@dataclass(slots=True)
class _Exchange:
    """One run's messages in the making; `batch` maps the open calls to their ids in the log."""

    said: UserMessage
    messages: list[Message] = field(default_factory=list)
    calls: dict[str, ToolCall] = field(default_factory=dict)
    output_tool: str | None = None
    results: dict[str, ToolResultContent] = field(default_factory=dict)

    def reply(self, event: Event) -> None:
        self.close_batch()
        if event.private is None:
            self._cut_off(event)
            return
        turn, _ = decode_reply(event.private)
        if not turn.choice:
            return
        self.messages.append(AssistantMessage(id=turn.message_id, content=turn.choice))
        calls = [part for part in turn.choice if isinstance(part, ToolCall)]
        ids = [part["call_id"] for part in event.data["content"] if part["type"] == "tool_call"]
        self.calls = dict(zip(ids, calls, strict=True))
        self.output_tool = turn.policy.output_tool

    def result(self, event: Event) -> None:
        """Take a call's result. One that the run accepted as its answer leaves text behind."""
        call = self.calls.get(event.data["call_id"])
        if call is not None and call.name == self.output_tool and _is_answer(event):
            said = self.messages[-1]
            if isinstance(said, AssistantMessage):
                content = answer_content(said.content, call)
                self.messages[-1] = said.model_copy(update={"content": content})
            self.calls = {}
        self.results[event.data["call_id"]] = _content(event)

    def _cut_off(self, event: Event) -> None:
        """A reply that a broken stream cut off: what text there was, without the engine's form."""
        parts = event.data["content"]
        if text := "".join(part["text"] for part in parts if part["type"] == "text"):
            self.messages.append(AssistantMessage(content=(AssistantText(text=text),)))

    def close_batch(self) -> None:
        if self.calls:
            content = tuple(
                ToolResult.of(call, (self.results[call_id],))
                for call_id, call in self.calls.items()
            )
            self.messages.append(UserMessage(content=content))
        self.calls, self.results = {}, {}


def user_message(data: dict[str, Any]) -> UserMessage:
    """The engine's form of a `message.user`."""
    return UserMessage(content=tuple(UserText(text=part["text"]) for part in data["content"]))


def user_texts(messages: Iterable[Message]) -> list[str]:
    """What users said, each message as one text; those that hold results say nothing."""
    said = [message for message in messages if isinstance(message, UserMessage)]
    parts = [[part.text for part in one.content if isinstance(part, UserText)] for one in said]
    return ["\n".join(texts) for texts in parts if texts]


def result_text(event: Event) -> str:
    """The text of a result event, as the model saw it."""
    data = event.data
    text: str = data["error"] if event.type == "tool.failed" else data["result"]
    return text


def fold_history(events: Iterable[Event], *, before_run: str) -> list[Message]:
    """The messages of every run that was driven before `before_run`, in the order driven.

    What a worker said stays between it and its delegation.
    """
    said: dict[str, UserMessage] = {}
    driven: dict[str, _Exchange] = {}
    for event in events:
        run_id = event.run_id
        if run_id is None or run_id == before_run or delegation_of(event.data):
            continue
        if event.type == "message.user":
            said[run_id] = user_message(event.data)
        elif event.type == "run.started":
            driven[run_id] = _Exchange(said[run_id])
        elif event.type == "message.assistant":
            driven[run_id].reply(event)
        elif run_id in driven:
            driven[run_id].result(event)
    messages: list[Message] = []
    for exchange in driven.values():
        exchange.close_batch()
        messages.extend((exchange.said, *exchange.messages))
    return messages


def _content(event: Event) -> ToolResultContent:
    """A synthetic result stands as JSON, as in the turn that gave it: it brought nothing in."""
    text = result_text(event)
    if event.type != "tool.settled":
        return ToolResultText(text=text)
    try:
        return ToolResultJson(value=parse_json(text))
    except ValueError:
        # What the engine says of a poor answer is a plain sentence.
        return ToolResultJson(value=text)


def _is_answer(event: Event) -> bool:
    return event.type == "tool.settled" and bool(event.data["outcome"] == "answered")
