"""The context of a run: made once, when it begins, and the same bytes whenever it goes on.

What the model is shown beside instructions and history is computed before the first step, kept
beside `context.assembled`, and read from there by whichever worker resumes the run. Bytes that are
gone or altered end it (run-context.md 9.1, 9.3).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from app.engine.json.arguments import sha256_hex
from app.engine.messages import SystemMessage
from app.errors import LeaseLost, StoreUnavailable, TurngateError
from app.log.envelope import NewEvent
from app.log.runs import ContextAssembled, RecallFacts
from app.policy.taint import Trust
from app.runctx.assemble import RunContextOptions, Sources, new_run_context
from app.runctx.blocks import render_blocks
from app.runctx.caller_memory import CallerMemoryInvalid, CallerMemoryTierShape
from app.runctx.skill import SKILL_TOOLS
from app.runctx.text import PromptBlockUnserializable
from app.service.context.attachments import (
    RunTools,
    hints_of,
    kept_views,
    skipped,
    trust_of,
    views_kept,
)
from app.service.context.compaction import kept_summary, summary_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from app.engine.messages import Message
    from app.ids import Identity
    from app.log.envelope import Event
    from app.runctx.context import ContextFacts, RunContext
    from app.runctx.ports import SessionFiles
    from app.runctx.shapes import InputArtifactView
    from app.service.agents.binding import Bound
    from app.service.context.compaction import Summary


class CannotStart(Exception):
    """What a turn starts from cannot be had; `code` is the run's error (service.md 11)."""

    code: ClassVar[str] = "runtime_fetch_error"


class BlockUnusable(CannotStart):
    """A block of the context cannot be written down."""

    code: ClassVar[str] = "runloop_error"


@dataclass(frozen=True, slots=True)
class KeptContext:
    """The blocks of a run in their exact text; `skills_revision` is that of its skills, if any.

    `facts` are there where this turn made it, and must keep it. `summary` is what an earlier run
    left of the history, which begins after it. `views` are the attachments, which have their bytes
    where this turn made the context.
    """

    blocks: tuple[str, ...] = ()
    skills_revision: int | None = None
    trust: Trust = Trust.UNSPECIFIED
    facts: ContextFacts | None = None
    summary: Summary | None = None
    views: tuple[InputArtifactView, ...] = ()

    @property
    def is_tainted(self) -> bool:
        """Whether the blocks, or the content of an attachment, are untrusted."""
        return max(self.trust, trust_of(self.views)).taints


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """A run that begins: who it acts for, what was said and attached, what is replayed, and when.

    `replayed` are the user messages of earlier runs that the model is shown anyhow.
    """

    identity: Identity
    said: str
    caller_memory: bytes | None
    attached: Sequence[Mapping[str, Any]]
    replayed: Collection[str]
    skills_revision: int | None
    summary: Summary | None
    at: datetime


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
    summary = document.get("summary")
    return KeptContext(
        tuple(document.get("blocks", ())),
        document.get("skills_revision"),
        kept.trust,
        summary=None if summary is None else summary_of(summary),
        views=views_kept(document.get("attachments", ())),
    )


async def assemble(bound: Bound, beginning: Beginning, files: SessionFiles) -> KeptContext:
    """The context of a run that begins in the conversation of these files. Raises CannotStart."""
    if bound.spec.memory.remembers and bound.memory is None:
        raise CannotStart("the agent remembers, and this process has no memory")
    try:
        context = await _context(bound, beginning, files)
        blocks = _texts(render_blocks(context))
    except (StoreUnavailable, LeaseLost):
        raise
    except (CallerMemoryInvalid, CallerMemoryTierShape, PromptBlockUnserializable) as error:
        raise BlockUnusable(error.message) from error
    except Exception as error:
        # Never with silently less context: whatever it was, the run does not begin without it.
        message = "what the run remembers, or its directory of skills, could not be read"
        told = f": {error.message}" if isinstance(error, TurngateError) else ""
        raise CannotStart(message + told) from error
    memory = context.memory_blocks
    tainted = memory is not None and memory.trust.taints
    return KeptContext(
        blocks,
        beginning.skills_revision,
        Trust.QUARANTINED_CONTENT if tainted else Trust.UNSPECIFIED,
        context.facts,
        beginning.summary,
        tuple(context.input_artifacts or ()),
    )


def context_assembled(
    context: KeptContext,
    facts: ContextFacts,
    *,
    run_id: str,
    turn_id: str,
    history_messages: int,
) -> NewEvent:
    """The event that keeps the context. A feature that is off adds no byte to it."""
    document: dict[str, object] = {"before_run": run_id, "history_messages": history_messages}
    if context.skills_revision is not None:
        document["skills_revision"] = context.skills_revision
    if context.blocks:
        document["blocks"] = context.blocks
    if context.summary is not None:
        document["summary"] = kept_summary(context.summary)
    if context.views:
        document["attachments"] = kept_views(context.views)
    kept = orjson.dumps(document)
    assembled = ContextAssembled(
        sha256=sha256_hex(kept),
        size_bytes=len(kept),
        history_messages=history_messages,
        attachments_skipped=skipped(facts.inputs),
        skills=facts.skills,
        skills_revision=context.skills_revision,
        tiers=facts.tiers,
        recall=_recall(facts),
        recall_skipped=facts.recall.recall_skipped,
        unfolded_turns=facts.unfolded_turns,
        caller_memory_bytes=facts.caller_memory_bytes,
    )
    return NewEvent(assembled, run_id=run_id, turn_id=turn_id, trust=context.trust, private=kept)


def _recall(facts: ContextFacts) -> RecallFacts | None:
    """The report of a recall that took place."""
    if not facts.recall.requested or facts.recall.recall_skipped is not None:
        return None
    return RecallFacts.model_validate(
        {name: fact for name, fact in asdict(facts.recall).items() if name in _RECALL_FACTS}
    )


_RECALL_FACTS = RecallFacts.model_fields


async def _context(bound: Bound, beginning: Beginning, files: SessionFiles) -> RunContext:
    attachments = bound.spec.attachments_policy
    return await new_run_context(
        Sources(
            memory=bound.memory,
            recall=bound.spec.memory.recall,
            skills=bound.skills if _wants_directory(bound) else None,
            tools=RunTools(bound),
            artifacts=files,
        ),
        beginning.identity,
        goal=beginning.said,
        now=beginning.at,
        options=RunContextOptions(
            caller_memory=beginning.caller_memory,
            caller_memory_trust=(
                Trust.TRUSTED_USER if bound.trusts_callers else Trust.QUARANTINED_CONTENT
            ),
            already_visible=beginning.replayed,
            artifact_ids=[one["artifact_id"] for one in beginning.attached],
            hints=hints_of(beginning.attached),
            policy=attachments.policy,
            inline_max_bytes=attachments.inline_max_bytes,
            inline_total_max_bytes=attachments.inline_total_max_bytes,
            manifest=attachments.manifest,
        ),
    )


def _texts(blocks: Sequence[Message]) -> tuple[str, ...]:
    """What is kept of blocks: their text, for every one is a system's message."""
    return tuple(block.text for block in blocks if isinstance(block, SystemMessage))


def _wants_directory(bound: Bound) -> bool:
    wanted = bound.spec.skills.directory
    if wanted is None:
        return any(spec.name in SKILL_TOOLS for spec in bound.executor.specs())
    return wanted
