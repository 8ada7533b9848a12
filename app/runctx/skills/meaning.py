"""Skills by what they mean: the second ranking of a search, over an embedder (run-context.md 6).

Revisions never change, so a skill is embedded once per process; the skills of one tenant are in the
scores of nobody else's search, since only what may be seen is compared.
"""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.ids import Identity
    from app.runctx.ports import Embedder, SkillStore
    from app.runctx.skill import Skill, SkillCard

# At 256 dimensions some 30 MB; beyond it the oldest are embedded anew.
KEPT: Final = 4096
BATCH: Final = 8

_Key = tuple[str, str]


class SkillMeanings:
    """Ranks skills by cosine; one per process."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: dict[_Key, Sequence[float]] = {}

    async def order(
        self, store: SkillStore, cards: Sequence[SkillCard], query: str, *, identity: Identity
    ) -> list[str]:
        """The names of those that point the same way as the query at all, nearest first.

        Raises EmbeddingFailed.
        """
        if not cards:
            return []
        vectors = await self._vectors(store, cards, identity)
        (asked,) = await self._embedder.embed([query], identity=identity)
        # Both have unit length.
        scores = {card.name: sum(map(mul, asked, vectors[_key(card)])) for card in cards}
        near = [name for name, score in scores.items() if score > 0]
        return sorted(near, key=lambda name: (-scores[name], name))

    async def _vectors(
        self, store: SkillStore, cards: Sequence[SkillCard], identity: Identity
    ) -> Mapping[_Key, Sequence[float]]:
        found = {key: self._kept[key] for key in map(_key, cards) if key in self._kept}
        missing = [card for card in cards if _key(card) not in found]
        for at in range(0, len(missing), BATCH):
            batch = await store.skills(identity, missing[at : at + BATCH])
            vectors = await self._embedder.embed(list(map(_text, batch)), identity=identity)
            found |= zip((_key(skill.card) for skill in batch), vectors, strict=True)
        self._kept |= found
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return found


def _key(card: SkillCard) -> _Key:
    return card.name, card.digest


def _text(skill: Skill) -> str:
    head = skill.card.head
    return "\n".join(part for part in (head.title, head.trigger, skill.body.description) if part)
