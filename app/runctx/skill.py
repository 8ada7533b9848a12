"""A skill: reusable guidance that a run may read (run-context.md 6).

What a directory or a search needs of a skill is its card; the rest is read when a tool asks for it.
Stored skills are immutable revisions, and models cannot write them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from app.errors import TurngateError
from app.policy.taint import Trust

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pydantic import JsonValue

SkillOrigin = Literal["pack", "generated"]
SkillScope = Literal["session", "user", "project", "tenant", "global"]
MatchPath = Literal["exact", "prefix", "name", "hybrid", "text"]
Selection = Literal["pinned_then_recent"]

# A skill of these scopes is its owner's; any other is everybody's in the tenant.
OWNED_SCOPES: Final = frozenset({"session", "user"})
# Whoever has one of these tools reads skills.
SKILL_TOOLS: Final = frozenset({"skill_search", "skill_get", "skill_list"})
DEFAULT_ENTRIES: Final = 30
MAX_ENTRIES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillHead:
    """The light part of a skill, as its author wrote it."""

    name: str
    trigger: str
    origin: SkillOrigin
    scope: SkillScope
    title: str = ""
    task_type: str = ""
    tags: tuple[str, ...] = ()
    required_tools: tuple[str, ...] = ()
    required_namespaces: tuple[str, ...] = ()
    required_tags: tuple[str, ...] = ()
    extra: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillBody:
    """The text of a skill: at least one step."""

    steps: tuple[str, ...]
    description: str = ""
    preconditions: tuple[str, ...] = ()
    failure_modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSkill:
    """A skill to be kept; `conversation_id` is that of a skill of scope `session`."""

    head: SkillHead
    body: SkillBody
    files: Mapping[str, bytes] = field(default_factory=dict)
    trust: Trust = Trust.TRUSTED_USER
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCard:
    """A kept skill without its text. `owner` is empty where it is everybody's in the tenant."""

    head: SkillHead
    trust: Trust
    owner: str
    conversation_id: str | None
    revision: int
    digest: str
    created_at: datetime
    updated_at: datetime

    @property
    def name(self) -> str:
        """The name it is read by."""
        return self.head.name

    @property
    def is_pinned(self) -> bool:
        """Whether its author pinned it: the boolean alone counts."""
        return self.head.extra.get("pinned") is True


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A kept skill with its text; `files` are the sizes of its files in bytes, by path."""

    card: SkillCard
    body: SkillBody
    files: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillView:
    """An entry of the directory."""

    name: str
    title: str = ""
    trigger: str = ""
    task_type: str = ""
    pinned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSkill:
    """A skill that a search found; the score is at most 1.0, `path` says by what."""

    skill: Skill
    score: float
    path: MatchPath


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCapability:
    """What a run may see: a skill that requires anything else is not for it.

    `known_tools` are the tools of the deployment; one that the run may not see is never named.
    """

    tools: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    known_tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSettings:
    """How a directory is cut, and what is taken out of texts; 0 entries mean 30.

    Raises ValueError for what is out of bounds.
    """

    max_entries: int = 0
    selection: Selection = "pinned_then_recent"
    pinned: tuple[str, ...] = ()
    redact_personal: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.max_entries <= MAX_ENTRIES:
            raise ValueError(f"max_entries: expected 0 to {MAX_ENTRIES}, found {self.max_entries}")
        if self.selection != "pinned_then_recent":
            raise ValueError(f"selection: expected pinned_then_recent, found {self.selection!r}")


class SkillTooLarge(TurngateError):
    """No form of the skills that were asked for fits the budget."""
