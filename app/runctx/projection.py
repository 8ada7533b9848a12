"""Values for a prompt from what stores hold (run-context.md 3.5, 3.6). Pure; None omits a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from app.runctx.skill import RankedSkill, SkillView


def project_skills_context(ranked: Sequence[RankedSkill] | None) -> list[JsonValue] | None:
    """Ranked skills with their steps, for callers that put them straight into a prompt."""
    return [_with_body(one) for one in ranked] if ranked else None


def project_skills_directory(views: Sequence[SkillView] | None) -> list[JsonValue] | None:
    """The list whose bodies stay behind `skill_get`, in the given order."""
    return [_entry(view) for view in views] if views else None


def _with_body(ranked: RankedSkill) -> JsonValue:
    head, body = ranked.skill.card.head, ranked.skill.body
    entry: dict[str, JsonValue] = {"name": head.name, "title": head.title}
    if body.description:
        entry["description"] = body.description
    if body.steps:
        entry["steps"] = list(body.steps)
    return entry


def _entry(view: SkillView) -> JsonValue:
    texts = {"title": view.title, "trigger": view.trigger, "task_type": view.task_type}
    given: dict[str, JsonValue] = {name: text for name, text in texts.items() if text}
    return {"name": view.name, **given, "pinned": view.pinned}
