"""What a turn leaves out of its requests, and who has the summary of it written.

These are the words that the turn and the run service share about a long history; `compaction` says
when it is condensed (run-context.md 10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.engine.messages import Message
    from app.log.payload import Payload
    from app.policy.taint import Trust

Reason = Literal["message_count", "token_budget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What stands for the messages that are left out: the block that the model is shown.

    `messages` of the AgentRun are folded, from the first on, but for the one at `pinned`.
    """

    block: str
    messages: int = 0
    pinned: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """When history is condensed, and how much of it stays."""

    max_messages: int
    keep_messages: int
    window_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What is to be folded: all messages of the AgentRun, of which those at `places` are new.

    Messages before `cut` are folded from now on, but for the one at `pinned`.
    """

    messages: Sequence[Message]
    places: Sequence[int]
    cut: int
    pinned: int | None
    reason: Reason
    tokens_before: int
    tokens_kept: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """A summary that was made: the event that tells it, and what requests hold from now on."""

    payload: Payload
    private: bytes
    trust: Trust
    folded: Folded


class Compactor(Protocol):
    """The run service's part: it has the summary written, and knows the log."""

    @property
    def settings(self) -> CompactionSettings: ...
    async def compacted(self, chunk: Chunk) -> Compacted | None:
        """The chunk condensed, merged with the summary before; None where that failed."""
        ...


def shown_places(folded: Folded | None, count: int) -> Iterator[int]:
    """The places of the messages that a request holds, the pinned one first."""
    if folded is None:
        yield from range(count)
        return
    if folded.pinned is not None:
        yield folded.pinned
    yield from range(folded.messages, count)
