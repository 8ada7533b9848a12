"""The reasoning of one streamed turn: deltas and complete blocks become parts (agent-run.md 8.2).

A part is pending while only deltas of it have arrived, and complete once its block has. A block
finds its part by the correlator first and by the provider's id second, because providers restate
a block, signed or under another correlator (#1843). A block that finds none but shares its
provider id with a complete part extends that part; it stays a part of its own in here, so that a
later restatement replaces just this block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.engine.messages import Reasoning, ReasoningText
from app.engine.streaming.stored import PartDocument

if TYPE_CHECKING:
    from app.engine.streaming.items import ReasoningDeltaItem, ReasoningItem


@dataclass(slots=True)
class _Part:
    """`complete` is None while the part is pending; `extends` is the place of another part."""

    correlator: str
    provider_id: str | None = None
    chunks: list[str] = field(default_factory=list)
    complete: Reasoning | None = None
    extends: int | None = None


class ReasoningParts:
    """The parts in order of first arrival."""

    __slots__ = ("_parts", "_pending")

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        # The pending parts by correlator; there is at most one each.
        self._pending: dict[str, _Part] = {}

    @classmethod
    def load(cls, documents: tuple[PartDocument, ...]) -> ReasoningParts:
        """The parts that `dump` wrote."""
        parts = cls()
        for document in documents:
            part = _Part(
                document.correlator,
                provider_id=document.provider_id,
                chunks=[document.text] if document.text else [],
                complete=document.complete,
                extends=document.extends,
            )
            parts._parts.append(part)
            if part.complete is None:
                parts._pending[part.correlator] = part
        return parts

    def dump(self) -> tuple[PartDocument, ...]:
        """The parts as they are stored."""
        return tuple(
            PartDocument(
                correlator=part.correlator,
                provider_id=part.provider_id,
                text="".join(part.chunks) if part.complete is None else None,
                complete=part.complete,
                extends=part.extends,
            )
            for part in self._parts
        )

    def append(self, item: ReasoningDeltaItem) -> None:
        """Add a delta to the pending part of its correlator, or open one."""
        part = self._pending.get(item.correlator)
        if part is None:
            part = _Part(item.correlator)
            self._parts.append(part)
            self._pending[item.correlator] = part
        part.chunks.append(item.text)
        if part.provider_id is None:
            part.provider_id = item.provider_id

    def complete(self, item: ReasoningItem) -> None:
        """Put a complete block where it belongs."""
        part = self._of_correlator(item.correlator) or self._pending_of(item.reasoning.id)
        if part is None:
            part = _Part(item.correlator, extends=self._complete_of(item.reasoning.id))
            self._parts.append(part)
        else:
            self._pending.pop(part.correlator, None)
        part.correlator = item.correlator
        part.provider_id = None
        part.complete = item.reasoning
        part.chunks.clear()

    def aggregated(self, correlator: str) -> str | None:
        """The text of the correlator's pending part; None if it has none."""
        part = self._pending.get(correlator)
        return None if part is None else "".join(part.chunks)

    def content(self) -> tuple[Reasoning, ...]:
        """The parts as content of a turn; pending parts without text are left out."""
        shown: dict[int, Reasoning] = {}
        for place, part in enumerate(self._parts):
            if part.complete is None:
                if text := "".join(part.chunks):
                    shown[place] = Reasoning(
                        id=part.provider_id, content=(ReasoningText(text=text),)
                    )
            elif part.extends is None:
                shown[place] = part.complete
            else:
                extended = shown[part.extends]
                content = extended.content + part.complete.content
                shown[part.extends] = extended.model_copy(update={"content": content})
        return tuple(shown.values())

    def _of_correlator(self, correlator: str) -> _Part | None:
        return next((part for part in reversed(self._parts) if part.correlator == correlator), None)

    def _pending_of(self, provider_id: str | None) -> _Part | None:
        if provider_id is None:
            return None
        pending = self._pending.values()
        return next((part for part in pending if part.provider_id == provider_id), None)

    def _complete_of(self, provider_id: str | None) -> int | None:
        """The place of the latest complete part with that id, or of the part which that extends."""
        if provider_id is None:
            return None
        for place in reversed(range(len(self._parts))):
            part = self._parts[place]
            if part.complete is not None and part.complete.id == provider_id:
                return place if part.extends is None else part.extends
        return None
