"""Skills for the tests of this room: one of everything, with what a test changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from app.policy.taint import Trust
from app.runctx.skill import Skill, SkillBody, SkillCapability, SkillCard, SkillHead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.ids import Identity

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def card(
    name: str = "deploy", *, minute: int = 0, trust: Trust = Trust.TRUSTED_USER, **head: Any
) -> SkillCard:
    """A skill of the tenant, changed that many minutes after noon."""
    plain: dict[str, Any] = {"trigger": f"When to {name}", "origin": "pack", "scope": "tenant"}
    at = NOON + timedelta(minutes=minute)
    return SkillCard(
        head=SkillHead(name=name, **(plain | head)),
        trust=trust,
        owner="",
        conversation_id=None,
        revision=1,
        digest="d" * 64,
        created_at=at,
        updated_at=at,
    )


def skill(name: str = "deploy", *, steps: tuple[str, ...] = ("Do it.",), **body: Any) -> Skill:
    """A skill with its text."""
    return Skill(card=card(name), body=SkillBody(steps=steps, **body))


def seeing(*tools: str, **members: Any) -> SkillCapability:
    """What a run with these tools may see."""
    return SkillCapability(tools=frozenset(tools), **members)


class ShelvedSkills:
    """The port `SkillStore` over a list, the same for everybody and at every revision."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self.shelf = skills

    async def cards(self, identity: Identity, *, revision: int) -> Sequence[SkillCard]:
        return [one.card for one in self.shelf]

    async def skills(self, identity: Identity, cards: Sequence[SkillCard]) -> Sequence[Skill]:
        return [one for one in self.shelf if one.card in cards]

    async def matching(self, identity: Identity, query: str, *, revision: int) -> Sequence[str]:
        return [one.card.name for one in self.shelf]

    async def file(self, identity: Identity, card: SkillCard, path: str) -> bytes | None:
        return None

    async def server_tools(self) -> Sequence[str]:
        return []
