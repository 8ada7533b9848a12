"""What a turn streams while it runs (turn.md 8). Provisional: the stored message is the truth.

`worker` names the delegation where a delegated worker says it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.log.payload import WorkerRef


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str
    worker: WorkerRef | None = None


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of reasoning; never part of the answer."""

    text: str
    worker: WorkerRef | None = None


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """An execution begins; `id` is the call's `call_id`."""

    id: str
    name: str
    worker: WorkerRef | None = None


TurnStreamEvent = TextDelta | ReasoningDelta | ToolStarted
