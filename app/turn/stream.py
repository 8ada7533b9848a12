"""What a turn streams while it runs (turn.md 8). Provisional: the stored message is the truth."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of reasoning; never part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """An execution begins; `id` is the call's `call_id`."""

    id: str
    name: str


TurnStreamEvent = TextDelta | ReasoningDelta | ToolStarted
