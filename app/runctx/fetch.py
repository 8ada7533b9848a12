"""What a run remembers, fetched once before its first step (run-context.md 3.3).

An error leaves as the object it is: a run goes on with all of its memory, or not at all. What is
left out on purpose is counted in the report. No line of the log holds a query or a text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Literal

import structlog

from app.policy.taint import Trust
from app.runctx.identity import require_identity
from app.runctx.memory import MemoryBlocks, MemoryFetch, RecallReport
from app.runctx.projection import project_memory_blocks
from app.runctx.text import MAX_TEXT_BYTES, cap_text, prompt_json, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

    from pydantic import JsonValue
    from structlog.typing import FilteringBoundLogger as Logger

    from app.ids import Identity
    from app.runctx.memory import (
        ConversationTurn,
        LLMContextPatch,
        RecallSettings,
        SearchResult,
        TurnHit,
    )
    from app.runctx.ports import MemoryStore

_Reason = Literal["non_finite", "floor", "window", "duplicate", "budget"]

log = structlog.get_logger("turngate.memory")


async def fetch_memory_blocks(
    store: MemoryStore,
    identity: Identity,
    *,
    query: str,
    recall: RecallSettings,
    already_visible: Collection[str] = (),
    logger: Logger | None = None,
) -> MemoryFetch:
    """The window, the summary and what was recalled. Raises IdentityRequired and the store's own.

    `already_visible` are user messages that the model is shown anyhow.
    """
    told: Logger = logger or log
    scope = _scope(identity, told)
    patch = await store.get_llm_context(scope)
    base = project_memory_blocks(patch)
    fetched = MemoryFetch(base, RecallReport(requested=recall.enabled), patch.unfolded_turns)
    if not recall.enabled:
        return fetched
    if not query.strip():
        return replace(fetched, report=replace(fetched.report, recall_skipped="empty_query"))
    result = await store.search_turns(scope, query, top_k=recall.top_k, scope=recall.scope)
    sifted = _Sieve(recall, _Window.of(patch, already_visible), scope.session)
    sifted.take(result.hits)
    report = sifted.report(result)
    told.debug("memory.recall", **asdict(report))
    return replace(fetched, blocks=_joined(base, sifted.kept), report=report)


@dataclass(frozen=True, slots=True)
class _Window:
    """What the model is shown already: turns by their id, and user messages."""

    turns: frozenset[str]
    said: frozenset[str]

    @staticmethod
    def of(patch: LLMContextPatch, already_visible: Iterable[str]) -> _Window:
        said = {*(turn.user_message for turn in patch.recent_turns), *already_visible}
        return _Window(
            frozenset(turn.turn_id for turn in patch.recent_turns), frozenset(said - {""})
        )

    def shows(self, turn: ConversationTurn) -> bool:
        return turn.turn_id in self.turns or turn.user_message in self.said


@dataclass(frozen=True, slots=True)
class _Entry:
    """A turn as the prompt shows it, and the bytes it takes there."""

    turn: ConversationTurn
    shown: dict[str, JsonValue]
    size: int


@dataclass(slots=True)
class _Sieve:
    """Takes the hits, best first, and counts what does not come through."""

    recall: RecallSettings
    window: _Window
    session: str
    kept: list[_Entry] = field(default_factory=list)
    dropped: Counter[_Reason] = field(default_factory=Counter)
    top_score: float | None = None

    def take(self, hits: Iterable[TurnHit]) -> None:
        """Filter first and cut to the budget afterwards: entries whole, from the front."""
        seen: set[tuple[str, str]] = set()
        for hit in hits:
            reason = self._reason_to_drop(hit, seen)
            if reason is None:
                seen.add(_texts(hit.turn))
                self.kept.append(self._entry(hit))
            else:
                self.dropped[reason] += 1
        sizes = accumulate(entry.size for entry in self.kept)
        fitting = sum(size <= self.recall.budget_bytes for size in sizes)
        self.dropped["budget"] = len(self.kept) - fitting
        del self.kept[fitting:]

    def report(self, result: SearchResult) -> RecallReport:
        """Where every hit went."""
        texts = [text for entry in self.kept for text in _texts(entry.turn)]
        return RecallReport(
            requested=True,
            top_k=result.top_k,
            returned=len(result.hits),
            kept=len(self.kept),
            dropped_non_finite=self.dropped["non_finite"],
            dropped_by_floor=self.dropped["floor"],
            dropped_by_window=self.dropped["window"],
            dropped_by_duplicate=self.dropped["duplicate"],
            dropped_by_budget=self.dropped["budget"],
            truncated_texts=sum(map(_is_capped, texts)),
            kept_bytes=sum(entry.size for entry in self.kept),
            unindexed=result.unindexed,
            top_score=self.top_score,
        )

    def _reason_to_drop(self, hit: TurnHit, seen: Container[tuple[str, str]]) -> _Reason | None:
        if not isfinite(hit.score):
            return "non_finite"
        if self.top_score is None:
            self.top_score = hit.score
        if hit.score < self.recall.min_score:
            return "floor"
        if self.window.shows(hit.turn):
            return "window"
        return "duplicate" if _texts(hit.turn) in seen else None

    def _entry(self, hit: TurnHit) -> _Entry:
        turn = hit.turn
        shown: dict[str, JsonValue] = {
            "user": cap_text(turn.user_message),
            "assistant": cap_text(turn.assistant_response),
            # Adding zero makes 0.0 of -0.0.
            "score": round(hit.score, 4) + 0.0,
        }
        if turn.at is not None:
            at = turn.at.astimezone(UTC).replace(microsecond=0, tzinfo=None)
            shown["timestamp"] = f"{at.isoformat()}Z"
        if turn.trust.taints:
            shown["trust"] = turn.trust.wire
        if turn.session != self.session:
            shown["other_session"] = True
        return _Entry(turn, shown, len(prompt_json(shown).encode()))


def _joined(base: MemoryBlocks | None, kept: list[_Entry]) -> MemoryBlocks | None:
    if not kept:
        return base
    tainted = any(entry.turn.trust.taints for entry in kept)
    own = Trust.QUARANTINED_CONTENT if tainted else Trust.TRUSTED_USER
    external: JsonValue = {"recalled_turns": [entry.shown for entry in kept]}
    if base is None:
        return MemoryBlocks(external, None, own)
    return MemoryBlocks(external, base.conversation, max(base.trust, own))


def _texts(turn: ConversationTurn) -> tuple[str, str]:
    return turn.user_message, turn.assistant_response


def _is_capped(text: str) -> bool:
    return len(without_surrogates(text).encode()) > MAX_TEXT_BYTES


def _scope(identity: Identity, told: Logger) -> Identity:
    """Who remembers. A run is emptied here: a full identity would name another slot."""
    require_identity(identity, told, "memory.identity_rejected")
    return identity.session_scope()
