"""`skill_list`: the skills of the run, as its directory shows them (run-context.md 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.tools.builtin.schema import closed_object
from app.tools.outcomes import answered
from app.tools.registry import RegisteredTool
from app.tools.skills import READING, reading, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.runctx.skill import SkillHead
    from app.runctx.skills.reader import RunSkills
    from app.turn.ports import ToolInvocation, ToolOutcome

DEFAULT_LIMIT: Final = 50
_TEXT: Final = {"type": "string", "maxLength": 1024}
_PARAMETERS: Final[dict[str, Any]] = closed_object(
    {},
    {
        "scope": {"type": "string", "enum": ["session", "user", "project", "tenant", "global"]},
        "task_type": _TEXT,
        "tags": {"type": "array", "items": _TEXT, "maxItems": 20},
        "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": DEFAULT_LIMIT},
        "offset": {"type": "integer", "minimum": 0, "maximum": 100_000, "default": 0},
    },
)


async def _list(call: ToolInvocation, skills: RunSkills) -> ToolOutcome:
    cards = await skills.reader.listed(skills.capability)
    wanted = [card for card in cards if _is_wanted(card.head, call.args)]
    start = int(call.args.get("offset", 0))
    cut = wanted[start : start + int(call.args.get("limit", DEFAULT_LIMIT))]
    views = await skills.reader.views(skills.capability, cut)
    return answered({"skills": [shown(view) for view in views], "total": len(wanted)})


def _is_wanted(head: SkillHead, args: Mapping[str, Any]) -> bool:
    return (
        args.get("scope", head.scope) == head.scope
        and args.get("task_type", head.task_type) == head.task_type
        and set(args.get("tags", ())) <= set(head.tags)
    )


def skill_list(skills: RunSkills | None) -> RegisteredTool:
    """The tool, for the skills of a run."""
    return RegisteredTool(
        name="skill_list",
        title="List skills",
        description="List the skills there are, some at a time. Read one with skill_get.",
        parameters=_PARAMETERS,
        profile=READING,
        body=reading(skills, _list),
    )
