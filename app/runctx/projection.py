"""Values for a prompt from what stores hold (run-context.md 3.4-3.6, 7).

Pure; None omits a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.policy.taint import Trust, highest
from app.runctx.memory import MemoryBlocks
from app.runctx.text import without_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from app.runctx.memory import ConversationTurn, LLMContextPatch
    from app.runctx.shapes import ArtifactRef
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


def project_session_artifacts(refs: Sequence[ArtifactRef]) -> list[JsonValue] | None:
    """The files of a session as rows, newest first, those of one moment by id."""
    by_id = sorted(refs, key=lambda ref: ref.id)
    newest_first = sorted(by_id, key=lambda ref: ref.created_at, reverse=True)
    return [_row(ref) for ref in newest_first] or None


def shown_filename(ref: ArtifactRef) -> str | None:
    """The name that a prompt may show: one that an untrusted tool gave could steer a clean run."""
    is_steering = ref.tool is not None and ref.trust.taints
    return None if is_steering else ref.filename or None


def _row(ref: ArtifactRef) -> JsonValue:
    row: dict[str, JsonValue] = {
        "id": ref.id,
        "mime": ref.mime,
        "size_bytes": ref.size_bytes,
        "from": _origin(ref),
    }
    if (filename := shown_filename(ref)) is not None:
        row["filename"] = filename
    return row


def _origin(ref: ArtifactRef) -> str:
    if ref.tool is not None:
        return f"tool: {ref.tool}"
    return "upload" if ref.namespace == "uploads" else ref.by or "unknown"
