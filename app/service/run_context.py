"""The context of a run: made once, when it begins, and the same bytes whenever it goes on.

What the model is shown beside instructions and history is computed before the first step, kept
beside `context.assembled`, and read from there by whichever worker resumes the run. Bytes that are
gone or altered end it (run-context.md 9.1, 9.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import orjson

from app.engine.arguments import sha256_hex
from app.errors import LeaseLost, StoreUnavailable
from app.log.envelope import NewEvent
from app.log.runs import ContextAssembled
from app.runctx.blocks import render_blocks
from app.runctx.context import RunContext
from app.runctx.projection import project_skills_directory
from app.runctx.skill import SKILL_TOOLS
from app.runctx.text import PromptBlockUnserializable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.ids import Identity
    from app.log.envelope import Event
    from app.runctx.skill import SkillView
    from app.service.binding import Bound


class CannotStart(Exception):
    """What a turn starts from cannot be had; `code` is the run's error (service.md 11)."""

    code: ClassVar[str] = "runtime_fetch_error"


class BlockUnusable(CannotStart):
    """A block of the context cannot be written down."""

    code: ClassVar[str] = "runloop_error"


@dataclass(frozen=True, slots=True)
class KeptContext:
    """The blocks of a run in their exact text; `skills_revision` is that of its skills, if any.

    `is_new`: this turn made it, and must keep it.
    """

    blocks: tuple[str, ...] = ()
    skills_revision: int | None = None
    skills: int = 0
    is_new: bool = False


def kept_context(events: Sequence[Event]) -> KeptContext | None:
    """What was kept when the run began; None if it has not. Raises CannotStart."""
    kept = next((event for event in events if event.type == "context.assembled"), None)
    if kept is None:
        if any(event.type == "step.started" for event in events):
            raise CannotStart("the kept context of the run is missing")
        return None
    if kept.private is None or sha256_hex(kept.private) != kept.data["sha256"]:
        raise CannotStart("the kept context of the run is missing or altered")
    document = orjson.loads(kept.private)
    return KeptContext(tuple(document.get("blocks", ())), document.get("skills_revision"))


async def assemble(bound: Bound, identity: Identity, skills_revision: int | None) -> KeptContext:
    """The context of a run that begins. Raises CannotStart."""
    views = await _directory(bound)
    directory = project_skills_directory(views)
    context = RunContext(identity=identity, query="", goal="", skills_context=directory)
    try:
        blocks = render_blocks(context)
    except PromptBlockUnserializable as error:
        raise BlockUnusable(str(error)) from error
    return KeptContext(blocks, skills_revision, len(views), is_new=True)


def context_assembled(
    context: KeptContext, *, run_id: str, turn_id: str, history_messages: int
) -> NewEvent:
    """The event that keeps the context. A feature that is off adds no byte to it."""
    document: dict[str, object] = {"before_run": run_id, "history_messages": history_messages}
    if context.skills_revision is not None:
        document["skills_revision"] = context.skills_revision
    if context.blocks:
        document["blocks"] = context.blocks
    kept = orjson.dumps(document)
    assembled = ContextAssembled(
        sha256=sha256_hex(kept),
        size_bytes=len(kept),
        history_messages=history_messages,
        skills=context.skills,
        skills_revision=context.skills_revision,
    )
    return NewEvent(assembled, run_id=run_id, turn_id=turn_id, private=kept)


async def _directory(bound: Bound) -> Sequence[SkillView]:
    if bound.skills is None or not _wants_directory(bound):
        return ()
    reader = bound.skills.reader
    try:
        return await reader.directory(reader.identity, bound.skills.capability)
    except (StoreUnavailable, LeaseLost):
        raise
    except Exception as error:
        # Never with silently less context: whatever it was, the run does not begin without it.
        raise CannotStart("the directory of skills could not be read") from error


def _wants_directory(bound: Bound) -> bool:
    wanted = bound.spec.skills.directory
    if wanted is None:
        return any(spec.name in SKILL_TOOLS for spec in bound.executor.specs())
    return wanted
