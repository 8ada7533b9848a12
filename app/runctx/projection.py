"""Values for a prompt from what stores hold (run-context.md 3.4-3.6). Pure; None omits a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.policy.taint import Trust, highest
from app.runctx.memory import MemoryBlocks
from app.runctx.text import without_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from app.runctx.memory import ConversationTurn, LLMContextPatch
    from app.runctx.skill import RankedSkill, SkillView


def project_memory_blocks(patch: LLMContextPatch) -> MemoryBlocks | None:
    """The conversation's tier: the window, oldest first, and the summary. No cap, no times."""
    if not patch.recent_turns and not patch.summary:
        return None
    conversation: dict[str, JsonValue] = {
        "strategy": without_surrogates(patch.strategy),
        "recent_turns": [_exchange(turn) for turn in patch.recent_turns],
    }
    tags = [Trust.TRUSTED_USER, *(turn.trust for turn in patch.recent_turns)]
    if patch.summary:
        conversation["summary"] = without_surrogates(patch.summary)
        tags.append(patch.summary_trust)
        if patch.summary_trust.taints:
            conversation["summary_trust"] = patch.summary_trust.wire
    return MemoryBlocks(external=None, conversation=conversation, trust=highest(tags))


def project_skills_context(ranked: Sequence[RankedSkill] | None) -> list[JsonValue] | None:
    """Ranked skills with their steps, for callers that put them straight into a prompt."""
    return [_with_body(one) for one in ranked] if ranked else None


def project_skills_directory(views: Sequence[SkillView] | None) -> list[JsonValue] | None:
    """The list whose bodies stay behind `skill_get`, in the given order."""
    return [_entry(view) for view in views] if views else None


def _exchange(turn: ConversationTurn) -> JsonValue:
    said: dict[str, JsonValue] = {
        "user": without_surrogates(turn.user_message),
        "assistant": without_surrogates(turn.assistant_response),
    }
    return said | {"trust": turn.trust.wire} if turn.trust.taints else said


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
