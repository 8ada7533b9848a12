"""What the skill tools share: whose skills they read, and how skills are shown to a model.

The tools of a deployment are bound to no run and list nothing; an executor gets its own, bound to
the skills of its run (run-context.md 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.policy.profile import Origin, ToolProfile
from app.policy.taint import Trust, highest
from app.tools.outcomes import TOOL_FAILED, failed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from app.runctx.skill import SkillCard, SkillView
    from app.runctx.skills.reader import RunSkills
    from app.tools.ports import Workspace
    from app.tools.registry import ToolBody
    from app.turn.ports import ToolInvocation, ToolOutcome

READING: Final = ToolProfile(
    Origin.LOCAL_SANDBOX, read_only=True, destructive=False, open_world=False
)


def reading(
    skills: RunSkills | None, act: Callable[[ToolInvocation, RunSkills], Awaitable[ToolOutcome]]
) -> ToolBody:
    """The body of a tool that reads skills; without a run there are none to read."""

    async def body(call: ToolInvocation, _: Workspace) -> ToolOutcome:
        if skills is None:
            return failed(TOOL_FAILED, "no skills can be read here")
        return await act(call, skills)

    return body


def trust_of(cards: Iterable[SkillCard]) -> Trust:
    """The label of what is shown of these skills."""
    return highest(card.trust for card in cards)


def shown(view: SkillView) -> dict[str, object]:
    """An entry of a list, without what is empty."""
    texts = {"title": view.title, "trigger": view.trigger, "task_type": view.task_type}
    given = {name: text for name, text in texts.items() if text}
    return {"name": view.name, **given, "pinned": view.pinned}
