"""`skill_get`: the text of skills within a budget, or one of their files (run-context.md 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.runctx.skill import SkillTooLarge
from app.tools.builtin.schema import closed_object
from app.tools.outcomes import TOOL_FAILED, answered, failed
from app.tools.registry import RegisteredTool
from app.tools.skills import READING, reading, trust_of

if TYPE_CHECKING:
    from app.runctx.skill import Skill
    from app.runctx.skills.reader import RunSkills
    from app.turn.ports import ToolInvocation, ToolOutcome

# The body of a folder may have 5,000 tokens.
DEFAULT_TOKENS: Final = 6000
MAX_FILE_BYTES: Final = 64 * 1024
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 64}
_PARAMETERS: Final[dict[str, Any]] = closed_object(
    {"names": {"type": "array", "items": _NAME, "minItems": 1, "maxItems": 10}},
    {
        "max_tokens": {
            "type": "integer",
            "minimum": 1,
            "maximum": 100_000,
            "default": DEFAULT_TOKENS,
        },
        "file": {
            "type": "string",
            "minLength": 1,
            "maxLength": 255,
            "description": "Read this file of the one skill instead",
        },
    },
)


async def _get(call: ToolInvocation, skills: RunSkills) -> ToolOutcome:
    names, path = call.args["names"], call.args.get("file")
    if path is not None:
        if len(names) != 1:
            return failed(TOOL_FAILED, "a file is read of exactly one skill")
        return await _file(skills, names[0], path)
    most = int(call.args.get("max_tokens", DEFAULT_TOKENS))
    try:
        found, full = await skills.reader.get(skills.capability, names, max_tokens=most)
    except SkillTooLarge as error:
        return failed("skill_too_large", str(error))
    told = [_shown(one, whole) for one, whole in zip(found, full, strict=True)]
    return answered({"skills": told}, trust=trust_of(one.card for one in found))


async def _file(skills: RunSkills, name: str, path: str) -> ToolOutcome:
    found = await skills.reader.file(skills.capability, name, path)
    if found is None:
        return failed(TOOL_FAILED, f"{name!r} has no file {path!r}")
    card, content = found
    if len(content) > MAX_FILE_BYTES:
        return failed(TOOL_FAILED, f"{path!r} has more than {MAX_FILE_BYTES} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return failed(TOOL_FAILED, f"{path!r} is no text")
    told = await skills.reader.redacted(skills.capability, text)
    return answered({"name": name, "file": path, "content": told}, trust=card.trust)


def _shown(skill: Skill, full: Skill) -> dict[str, object]:
    """The skill without what is empty, and what was left out of it to fit."""
    head, body = skill.card.head, skill.body
    members: dict[str, object] = {
        "title": head.title,
        "trigger": head.trigger,
        "description": body.description,
        "preconditions": list(body.preconditions),
        "steps": list(body.steps),
        "failure_modes": list(body.failure_modes),
        "files": sorted(skill.files),
        "summarized": (full.body.preconditions, full.body.failure_modes)
        != (body.preconditions, body.failure_modes),
        "dropped_steps": len(full.body.steps) - len(body.steps),
    }
    return {"name": head.name, **{name: value for name, value in members.items() if value}}


def skill_get(skills: RunSkills | None) -> RegisteredTool:
    """The tool, for the skills of a run."""
    return RegisteredTool(
        name="skill_get",
        title="Read skills",
        description="Read skills by their names, or a text file of one of them.",
        parameters=_PARAMETERS,
        profile=READING,
        body=reading(skills, _get),
    )
