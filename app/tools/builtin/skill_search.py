"""`skill_search`: the skills that match a question, best first (run-context.md 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.runctx.memory import EmbeddingFailed
from app.tools.builtin.schema import closed_object
from app.tools.outcomes import TOOL_FAILED, answered, failed
from app.tools.registry import RegisteredTool
from app.tools.skills import READING, reading, trust_of

if TYPE_CHECKING:
    from app.runctx.skills.reader import RunSkills
    from app.turn.ports import ToolInvocation, ToolOutcome

DEFAULT_LIMIT: Final = 10
_PARAMETERS: Final[dict[str, Any]] = closed_object(
    {"query": {"type": "string", "maxLength": 4096, "description": "A name, or what to do"}},
    {"limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": DEFAULT_LIMIT}},
)


async def _search(call: ToolInvocation, skills: RunSkills) -> ToolOutcome:
    query: str = call.args["query"]
    if not query.strip():
        return failed(TOOL_FAILED, "the query is blank")
    limit = int(call.args.get("limit", DEFAULT_LIMIT))
    try:
        found = await skills.reader.search(skills.capability, query, limit=limit)
    except EmbeddingFailed:
        return failed(TOOL_FAILED, "skills cannot be searched just now; skill_list lists them")
    hits = [
        {
            "name": one.skill.card.name,
            "title": one.skill.card.head.title,
            "trigger": one.skill.card.head.trigger,
            "score": one.score,
        }
        for one in found
    ]
    return answered({"skills": hits}, trust=trust_of(one.skill.card for one in found))


def skill_search(skills: RunSkills | None) -> RegisteredTool:
    """The tool, for the skills of a run."""
    return RegisteredTool(
        name="skill_search",
        title="Search skills",
        description="Find skills by name or by what they are for. Read one with skill_get.",
        parameters=_PARAMETERS,
        profile=READING,
        body=reading(skills, _search),
    )
