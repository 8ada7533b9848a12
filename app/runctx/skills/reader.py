"""The skills of one run, fixed at the revision it began with (run-context.md 6).

Directory and tools answer as of that revision, also after a resume; a change shows in the next run.
What a skill says is content: it grants nothing and widens nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from app.runctx.identity import require_identity
from app.runctx.skill import RankedSkill
from app.runctx.skills.budget import fitted
from app.runctx.skills.directory import allowed, directory_entries, directory_order, view_of
from app.runctx.skills.redaction import Redaction
from app.runctx.skills.search import ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.ids import Identity
    from app.runctx.ports import SkillStore
    from app.runctx.skill import Skill, SkillCapability, SkillCard, SkillSettings, SkillView
    from app.runctx.skills.meaning import SkillMeanings

log = structlog.get_logger("turngate.skills")


class SkillReader:
    """Reads the skills that the identity may see, as of `revision`."""

    def __init__(
        self,
        store: SkillStore,
        identity: Identity,
        *,
        revision: int,
        settings: SkillSettings,
        meanings: SkillMeanings | None = None,
    ) -> None:
        self._store = store
        self.identity = identity
        self.revision: Final = revision
        self._settings = settings
        self._meanings = meanings

    async def directory(
        self, identity: Identity, capability: SkillCapability
    ) -> tuple[SkillView, ...]:
        """The directory of the run. Raises IdentityRequired."""
        _require(identity)
        entries = directory_entries(await self._cards(), capability, self._settings)
        redaction = await self._redaction(capability)
        return tuple(redaction.view(view_of(card, self._settings.pinned)) for card in entries)

    async def search(
        self, capability: SkillCapability, query: str, *, limit: int
    ) -> tuple[RankedSkill, ...]:
        """The skills that match, best first; those that the run may not see change no place.

        Raises EmbeddingFailed.
        """
        cards = allowed(await self._cards(), capability)
        by_text = await self._store.matching(self.identity, query, revision=self.revision)
        by_meaning = None
        if self._meanings is not None:
            by_meaning = await self._meanings.order(
                self._store, cards, query, identity=self.identity
            )
        found = ranked(query, cards, by_text, by_meaning)[:limit]
        bodies = {skill.card.name: skill for skill in await self._skills([o[0] for o in found])}
        redaction = await self._redaction(capability)
        return tuple(
            RankedSkill(skill=redaction.skill(bodies[card.name]), score=score, path=path)
            for card, score, path in found
        )

    async def listed(self, capability: SkillCapability) -> tuple[SkillCard, ...]:
        """Everything that the directory would list without its cut, in its order."""
        shown = [card for card in allowed(await self._cards(), capability) if not card.trust.taints]
        return tuple(directory_order(shown, self._settings.pinned))

    async def views(
        self, capability: SkillCapability, cards: Sequence[SkillCard]
    ) -> tuple[SkillView, ...]:
        """These skills as the directory shows them."""
        redaction = await self._redaction(capability)
        return tuple(redaction.view(view_of(card, self._settings.pinned)) for card in cards)

    async def get(
        self, capability: SkillCapability, names: Sequence[str], *, max_tokens: int
    ) -> tuple[list[Skill], list[Skill]]:
        """The named skills in a form that fits, and in full; unknown and hidden ones left out.

        Raises SkillTooLarge.
        """
        cards = {card.name: card for card in allowed(await self._cards(), capability)}
        wanted = [cards[name] for name in dict.fromkeys(names) if name in cards]
        redaction = await self._redaction(capability)
        full = [redaction.skill(skill) for skill in await self._skills(wanted)]
        return fitted(full, max_tokens), full

    async def file(
        self, capability: SkillCapability, name: str, path: str
    ) -> tuple[SkillCard, bytes] | None:
        """A file of a skill as it was imported, and the skill; None if there is none to be seen."""
        cards = {card.name: card for card in allowed(await self._cards(), capability)}
        if (card := cards.get(name)) is None:
            return None
        content = await self._store.file(self.identity, card, path)
        return None if content is None else (card, content)

    async def redacted(self, capability: SkillCapability, text: str) -> str:
        """A text of a skill without what the run must not be told."""
        return (await self._redaction(capability)).text(text)

    async def _cards(self) -> Sequence[SkillCard]:
        _require(self.identity)
        return await self._store.cards(self.identity, revision=self.revision)

    async def _skills(self, cards: Sequence[SkillCard]) -> Sequence[Skill]:
        return await self._store.skills(self.identity, cards) if cards else ()

    async def _redaction(self, capability: SkillCapability) -> Redaction:
        known = capability.known_tools | frozenset(await self._store.server_tools())
        return Redaction(known - capability.tools, personal=self._settings.redact_personal)


@dataclass(frozen=True, slots=True)
class RunSkills:
    """A run's reader, and what one of its agents may see through it."""

    reader: SkillReader
    capability: SkillCapability


def _require(identity: Identity) -> None:
    require_identity(identity, log, "skill.identity_rejected")
