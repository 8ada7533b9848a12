"""The one factory of a run's context, for the driver and for programs without the service.

Each part comes from its own function; an error of a part leaves as it is (run-context.md 3.10).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from app.engine.json.output_schema import CompiledSchema
from app.errors import TurngateError
from app.policy.taint import Trust
from app.runctx.attach import (
    INLINE_MAX_BYTES,
    INLINE_TOTAL_MAX_BYTES,
    InputOptions,
    resolve_input_artifacts,
)
from app.runctx.caller_memory import compose_caller_memory
from app.runctx.context import ContextFacts, RunContext
from app.runctx.fetch import fetch_memory_blocks
from app.runctx.identity import require_identity
from app.runctx.memory import MemoryFetch, RecallReport, RecallSettings
from app.runctx.projection import project_session_artifacts, project_skills_directory

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from pydantic import JsonValue
    from structlog.typing import FilteringBoundLogger as Logger

    from app.ids import Identity
    from app.runctx.attach import ResolvedInputs
    from app.runctx.disposition import Disposition, DispositionPolicy
    from app.runctx.memory import MemoryBlocks
    from app.runctx.ports import MemoryStore, SessionFiles, ToolCatalog
    from app.runctx.skills.reader import RunSkills


log = structlog.get_logger("turngate.inputs")


class ForeignSkillReader(TurngateError):
    """The skill reader was opened for another run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a context is read from; without a source its part is left out."""

    memory: MemoryStore | None = None
    recall: RecallSettings = field(default_factory=RecallSettings)
    skills: RunSkills | None = None
    tools: ToolCatalog | None = None
    artifacts: SessionFiles | None = None
    logger: Logger | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContextOptions:
    """What one run brings along. `already_visible` are user messages that are replayed anyhow.

    What the agent says is here as well: how far callers are trusted, how many bytes go along
    inline, and whether the session's files are listed, if there is a store of them. Without
    `granted_scopes` every tool of the catalogue is shown.
    """

    artifact_ids: Sequence[str] = ()
    hints: Mapping[str, Disposition] | None = None
    policy: DispositionPolicy | None = None
    inline_max_bytes: int = INLINE_MAX_BYTES
    inline_total_max_bytes: int = INLINE_TOTAL_MAX_BYTES
    manifest: bool = True
    caller_memory: bytes | str | None = None
    caller_memory_trust: Trust = Trust.QUARANTINED_CONTENT
    already_visible: Collection[str] = ()
    granted_scopes: Collection[str] | None = None
    output_schema: Mapping[str, object] | None = None
    budget: Mapping[str, JsonValue] | None = None
    planning_hints: Mapping[str, JsonValue] | None = None
    model_overrides: Mapping[str, JsonValue] | None = None


async def new_run_context(
    sources: Sources,
    identity: Identity,
    *,
    goal: str,
    now: datetime,
    options: RunContextOptions | None = None,
) -> RunContext:
    """The context of a run that is about `goal`, as of `now`; the identity's run may be empty.

    Raises IdentityRequired, ForeignSkillReader, ValueError for an unusable schema, and whatever
    the parts raise.
    """
    given = options or RunContextOptions()
    require_identity(identity, sources.logger or log, "memory.identity_rejected")
    if sources.skills is not None and sources.skills.reader.identity != identity:
        raise ForeignSkillReader(f"expected a skill reader of run {identity.run!r}")
    schema = None if given.output_schema is None else CompiledSchema(given.output_schema)
    fetched = await _memory(sources, identity, goal, given)
    skills = await _skills(sources, identity)
    memory = compose_caller_memory(
        fetched.blocks, given.caller_memory, trust=given.caller_memory_trust
    )
    inputs = await _inputs(sources, identity, given)
    tools = None if sources.tools is None else sources.tools.schemas(given.granted_scopes)
    return RunContext(
        identity=identity,
        query=goal,
        goal=goal,
        at=now,
        memory_blocks=memory,
        skills_context=skills,
        input_artifacts=inputs.views,
        session_artifacts=await _manifest(sources, identity) if given.manifest else None,
        tools=tools,
        output_schema=schema,
        budget=given.budget,
        planning_hints=given.planning_hints,
        model_overrides=given.model_overrides,
        trust=max(inputs.trust, Trust.UNSPECIFIED if memory is None else memory.trust),
        facts=ContextFacts(
            recall=fetched.report,
            tiers=_tiers(memory),
            unfolded_turns=fetched.unfolded_turns,
            skills=len(skills or ()),
            caller_memory_bytes=_size(given.caller_memory),
            inputs=inputs.facts,
        ),
    )


async def _memory(
    sources: Sources, identity: Identity, goal: str, given: RunContextOptions
) -> MemoryFetch:
    if sources.memory is None:
        return MemoryFetch(None, RecallReport())
    return await fetch_memory_blocks(
        sources.memory,
        identity,
        query=goal,
        recall=sources.recall,
        already_visible=given.already_visible,
        logger=sources.logger,
    )


async def _skills(sources: Sources, identity: Identity) -> list[JsonValue] | None:
    if sources.skills is None:
        return None
    views = await sources.skills.reader.directory(identity, sources.skills.capability)
    return project_skills_directory(views)


async def _inputs(sources: Sources, identity: Identity, given: RunContextOptions) -> ResolvedInputs:
    return await resolve_input_artifacts(
        sources.artifacts,
        identity,
        ids=given.artifact_ids,
        options=InputOptions(
            hints=given.hints,
            policy=given.policy,
            catalog=sources.tools,
            inline_max_bytes=given.inline_max_bytes,
            inline_total_max_bytes=given.inline_total_max_bytes,
        ),
        logger=sources.logger,
    )


async def _manifest(sources: Sources, identity: Identity) -> list[JsonValue] | None:
    """The session's files as rows; a list that cannot be had costs the run nothing else."""
    told: Logger = sources.logger or log
    if sources.artifacts is None:
        told.warning("manifest.unavailable", run=identity.run, error="store_missing")
        return None
    try:
        refs = await sources.artifacts.list(identity.session_scope())
    except Exception as error:  # noqa: BLE001 - a run goes on without a list, whatever it was
        told.warning("manifest.unavailable", run=identity.run, error=type(error).__name__)
        return None
    return project_session_artifacts(refs)


def _tiers(memory: MemoryBlocks | None) -> tuple[str, ...]:
    if memory is None:
        return ()
    tiers = {"external": memory.external, "conversation": memory.conversation}
    return tuple(name for name, tier in tiers.items() if tier is not None)


def _size(raw: bytes | str | None) -> int:
    return len(raw.encode() if isinstance(raw, str) else raw or b"")
