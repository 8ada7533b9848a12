"""The values of memory: turns, the patch a store offers, recall and its report, health.

A turn of memory is one finished exchange, what the user said and what was answered. It is no turn
of the engine (run-context.md 1, 3.3, 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Literal

from app.errors import TurngateError
from app.policy.taint import Trust

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pydantic import JsonValue

Strategy = Literal["none", "truncation", "rolling_summary"]
RecallScope = Literal["session", "user"]


class StoreClosed(TurngateError):
    """The store was closed; nothing is read or written any more."""


class EmptyQuery(TurngateError):
    """There is nothing to search for."""


class SemanticDisabled(TurngateError):
    """The store does not search by meaning; an empty answer would say that it did."""

    code: ClassVar[str] = "memory.semantic_disabled"


class EmbedderMismatch(TurngateError):
    """The turns in scope have vectors of another embedder only."""

    code: ClassVar[str] = "memory.embedder_mismatch"

    def __init__(self, wanted: str, found: str) -> None:
        super().__init__(
            f"turns were embedded by {found!r} and not by {wanted!r}: run turngate rebuild memory"
        )


class EmbeddingFailed(TurngateError):
    """Texts have no sound vectors: nothing is stored or compared then. Never shows a text."""

    code: ClassVar[str] = "memory.embedding_failed"


class MemoryStateMismatch(TurngateError):
    """A state of one strategy was brought to a store of another."""


class IllegalHealthTransition(TurngateError):
    """Health does not change that way (run-context.md 5.2 rule 6)."""


class Health(StrEnum):
    """How the summaries of a session are."""

    HEALTHY = "healthy"
    RETRY = "retry"
    DEGRADED = "degraded"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """How an agent remembers; run-context.md 5.1 has the meaning of each field."""

    strategy: Strategy = "none"
    budget_tokens: int = 0
    recent_turns: int = 4
    recovery_backlog_max: int = 16
    is_semantic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationTurn:
    """One finished exchange. `run` and `session` are where it was had."""

    user_message: str
    assistant_response: str
    at: datetime | None
    trust: Trust = Trust.TRUSTED_USER
    turn_id: str = ""
    run: str = ""
    session: str = ""
    digest: str = ""
    artifacts_shown: tuple[str, ...] = ()
    artifacts_hidden: tuple[str, ...] = ()

    @property
    def embedded_text(self) -> str:
        """What of it is embedded: both sides, or the one that is not blank; else nothing."""
        sides = (self.user_message, self.assistant_response)
        return "\n".join(side for side in sides if side.strip())


@dataclass(frozen=True, slots=True)
class TurnWritten:
    """A turn is stored; False where the run's turn was there already."""

    turn_id: str
    is_new: bool
    health: Health


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMContextPatch:
    """What a store offers for a session. `unfolded_turns` are in neither window nor summary."""

    strategy: str = ""
    summary: str = ""
    summary_trust: Trust = Trust.UNSPECIFIED
    recent_turns: Sequence[ConversationTurn] = ()
    tokens: int = 0
    unfolded_turns: int = 0


@dataclass(frozen=True, slots=True)
class TurnHit:
    """A turn found by meaning; `score` is the cosine."""

    turn: ConversationTurn
    score: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, best first; turns in scope that have no vector yet are `unindexed`."""

    hits: Sequence[TurnHit]
    top_k: int
    unindexed: int = 0


@dataclass(frozen=True, slots=True)
class SpilledRange:
    """Turns by their number in the session, both ends included, that wait to be folded."""

    first: int
    last: int
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """All of a session's memory but its vectors."""

    strategy: Strategy
    turns: Sequence[ConversationTurn] = ()
    summary: str = ""
    summary_trust: Trust = Trust.UNSPECIFIED
    folded_through: int = 0
    health: Health = Health.HEALTHY
    failures: int = 0
    pending: Sequence[SpilledRange] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """Whether and how turns are found by meaning; a `top_k` of 0 is the store's default."""

    enabled: bool = False
    top_k: int = 0
    min_score: float = 0.0
    scope: RecallScope = "session"
    budget_bytes: int = 16_384


@dataclass(frozen=True, slots=True)
class MemoryBlocks:
    """What memory puts into a prompt, by tier; an absent tier renders nothing."""

    external: JsonValue | None
    conversation: JsonValue | None
    trust: Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallReport:
    """Where the hits of a recall went. Counts, and no content."""

    requested: bool = False
    recall_skipped: Literal["empty_query"] | None = None
    top_k: int = 0
    returned: int = 0
    kept: int = 0
    dropped_non_finite: int = 0
    dropped_by_floor: int = 0
    dropped_by_window: int = 0
    dropped_by_duplicate: int = 0
    dropped_by_budget: int = 0
    truncated_texts: int = 0
    kept_bytes: int = 0
    unindexed: int = 0
    top_score: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryFetch:
    """The blocks of a run's memory, and what recall did.

    `unfolded_turns` is the patch's own: `context.assembled` states it, and neither blocks nor
    report have a place for it.
    """

    blocks: MemoryBlocks | None
    report: RecallReport
    unfolded_turns: int = 0
