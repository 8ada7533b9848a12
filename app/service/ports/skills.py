"""What the service needs for skills: reads, writes, and tools that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from app.ids import Identity
    from app.log.servers import McpServerRecord
    from app.runctx.skill import Skill, SkillCard, SkillSettings
    from app.runctx.skills.reader import RunSkills


class SkillReads(Protocol):
    """Reads of a tenant's skills."""

    async def skills_revision(self) -> int:
        """The revision of the tenant's skills as they are now; 0 where there never was one."""
        ...

    async def skill_cards(self, principal: str) -> list[SkillCard]:
        """The skills that the principal may see now, of each name the nearest, by name."""
        ...

    async def owned_skills(self, owner: str) -> list[SkillCard]:
        """The skills of an owner, or with none those of everybody, as they are now."""
        ...

    async def skills(self, principal: str, cards: Sequence[SkillCard]) -> list[Skill]:
        """The skills of these cards in full, in their order."""
        ...


class SkillWrites(Protocol):
    """Writes of a tenant's skills."""

    async def begin_skills_revision(self) -> tuple[int, int]:
        """Keep all others from writing skills; the next revision, and how many skills there are."""
        ...

    async def add_skill(self, skill: Skill, files: Mapping[str, bytes]) -> None:
        """Add a revision of a skill, the revision being the one begun."""
        ...

    async def delete_skill(self, card: SkillCard) -> None:
        """End a skill; the card's revision and time are those of its end."""
        ...


class SkillTools(Protocol):
    """The skills of a run, for its tools."""

    def skills(
        self,
        identity: Identity,
        *,
        revision: int,
        settings: SkillSettings,
        names: Sequence[str],
        servers: Sequence[McpServerRecord] = (),
    ) -> RunSkills:
        """The skills of a run at a revision, for an agent that has the tools `names`."""
        ...

    def reading(self, skills: RunSkills) -> Self:
        """The same toolbox with skill tools that read these skills."""
        ...
