"""The messages of earlier runs, folded from the log, as the input history of a new one.

A run that has ended left every call with its result, so what is folded here is canonical in the
sense of agent-run.md 9.2. The log is immutable: the same range gives the same history, always.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from app.engine.json.text import parse_json
from app.engine.machine.output_tool import answer_content
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
from app.log.payload import delegation_of
from app.turn.model.reply import decode_reply

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


@dataclass(frozen=True, slots=True)
class Placed:
    """A message and where it stands in the order in which runs were driven.

    What a user said stands where its run began, and was said at `said_seq`.
    """

    message: Message
    seq: int
    said_seq: int | None = None


class Cut(Protocol):
    """What a summary stands for: all up to `through_seq`, but for what was said at `pinned_seq`."""

    @property
    def through_seq(self) -> int: ...
    @property
    def pinned_seq(self) -> int | None: ...


@dataclass(slots=True)
class _Exchange:
    """One run's messages in the making; `batch` maps the open calls to their ids in the log."""

    messages: list[Placed]
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
        said = AssistantMessage(id=turn.message_id, content=turn.choice)
        self.messages.append(Placed(said, event.seq))
        calls = [part for part in turn.choice if isinstance(part, ToolCall)]
        ids = [part["call_id"] for part in event.data["content"] if part["type"] == "tool_call"]
        self.calls = dict(zip(ids, calls, strict=True))
        self.output_tool = turn.policy.output_tool

    def result(self, event: Event) -> None:
        """Take a call's result. One that the run accepted as its answer leaves text behind."""
        call = self.calls.get(event.data["call_id"])
        if call is not None and call.name == self.output_tool and _is_answer(event):
            placed = self.messages[-1]
            if isinstance(placed.message, AssistantMessage):
                content = answer_content(placed.message.content, call)
                said = placed.message.model_copy(update={"content": content})
                self.messages[-1] = replace(placed, message=said)
            self.calls = {}
        self.results[event.data["call_id"]] = _content(event)

    def _cut_off(self, event: Event) -> None:
        """A reply that a broken stream cut off: what text there was, without the engine's form."""
        parts = event.data["content"]
        if text := "".join(part["text"] for part in parts if part["type"] == "text"):
            said = AssistantMessage(content=(AssistantText(text=text),))
            self.messages.append(Placed(said, event.seq))

    def close_batch(self) -> None:
        if self.calls:
            content = tuple(
                ToolResult.of(call, (self.results[call_id],))
                for call_id, call in self.calls.items()
            )
            self.messages.append(Placed(UserMessage(content=content), self.messages[-1].seq))
        self.calls, self.results = {}, {}


def user_message(data: dict[str, Any]) -> UserMessage:
    """The engine's form of a `message.user`."""
    return UserMessage(content=tuple(UserText(text=part["text"]) for part in data["content"]))


def user_text(data: dict[str, Any]) -> str:
    """A `message.user` as one text."""
    return "\n".join(part["text"] for part in data["content"])


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


def fold_history(
    events: Iterable[Event], *, before_run: str, after: Cut | None = None
) -> list[Placed]:
    """The messages of every run that was driven before `before_run`, in the order driven.

    Those that a summary stands for are left out. What a worker said stays between it and its
    delegation.
    """
    said: dict[str, Event] = {}
    driven: dict[str, _Exchange] = {}
    for event in events:
        run_id = event.run_id
        if run_id is None or run_id == before_run or delegation_of(event.data):
            continue
        if event.type == "message.user":
            said[run_id] = event
        elif event.type == "run.started":
            driven[run_id] = _Exchange([placed_input(said[run_id], at=event.seq)])
        elif event.type == "message.assistant":
            driven[run_id].reply(event)
        elif run_id in driven:
            driven[run_id].result(event)
    messages: list[Placed] = []
    for exchange in driven.values():
        exchange.close_batch()
        messages += exchange.messages
    return messages if after is None else _after(messages, after)


def placed_input(said: Event, *, at: int) -> Placed:
    """What was said to a run that began at `at`."""
    return Placed(user_message(said.data), at, said.seq)


def _after(messages: Iterable[Placed], cut: Cut) -> list[Placed]:
    """The pinned message, then what came after the cut."""
    return [
        one
        for one in messages
        if one.seq > cut.through_seq
        or (one.said_seq is not None and one.said_seq == cut.pinned_seq)
    ]


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
