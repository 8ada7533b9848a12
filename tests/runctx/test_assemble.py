"""The one factory of a run's context (run-context.md 3.10, 11.K)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from app.errors import IdentityRequired
from app.policy.taint import Trust
from app.runctx.assemble import (
    ForeignSkillReader,
    RunContextOptions,
    Sources,
    new_run_context,
)
from app.runctx.attach import resolve_input_artifacts
from app.runctx.caller_memory import CallerMemoryInvalid, compose_caller_memory
from app.runctx.fetch import fetch_memory_blocks
from app.runctx.projection import project_session_artifacts, project_skills_directory
from app.runctx.skill import SkillCapability, SkillSettings
from app.runctx.skills.reader import RunSkills, SkillReader
from tests.runctx.attached import MINE, Shelf, ref
from tests.runctx.remembered import ALICE, NOON, RECALL, hit, turn
from tests.runctx.skills.shelf import ShelvedSkills, skill
from tests.support.played.memory import KeptMemory, OfferedMemory

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pydantic import JsonValue

    from app.ids import Identity
    from app.runctx.context import RunContext
    from app.runctx.shapes import ArtifactRef

RUN = replace(ALICE, run="run_1")


class Tools:
    """Two tools, one of which needs a scope."""

    def schemas(self, scopes: Collection[str] | None) -> Sequence[JsonValue]:
        own: list[JsonValue] = [{"name": "read"}]
        return [*own, {"name": "send"}] if scopes is None or "mail" in scopes else own

    def owns(self, name: str) -> bool:
        return name in {"read", "send"}

    def reader_of(self, media_type: str) -> str | None:
        return None


def skills(identity: Identity = RUN) -> RunSkills:
    reader = SkillReader(ShelvedSkills([skill()]), identity, revision=1, settings=SkillSettings())
    return RunSkills(reader, SkillCapability())


async def made(
    sources: Sources | None = None, identity: Identity = RUN, goal: str = "hi", **options: Any
) -> RunContext:
    given = RunContextOptions(**options) if options else None
    return await new_run_context(sources or Sources(), identity, goal=goal, now=NOON, options=given)


async def test_c166_without_sources_every_optional_field_is_none() -> None:
    context = await made()
    assert (context.goal, context.query, context.at) == ("hi", "hi", NOON)
    assert context.identity is RUN
    optional = [
        "memory_blocks",
        "skills_context",
        "session_artifacts",
        "tools",
        "output_schema",
        "budget",
        "planning_hints",
        "model_overrides",
    ]
    assert [getattr(context, name) for name in optional] == [None] * len(optional)
    assert context.trust is Trust.UNSPECIFIED


async def test_c166_each_field_is_what_its_own_function_returns() -> None:
    memory = OfferedMemory(hits=[hit("seen"), hit("found")])
    sources = Sources(memory=memory, recall=RECALL, skills=skills(), tools=Tools())
    context = await made(
        sources,
        caller_memory="[1]",
        already_visible=["seen"],
        granted_scopes=[],
        output_schema={"type": "object"},
        budget={"tokens": 1},
        planning_hints={"a": 1},
        model_overrides={"temperature": 0},
    )
    fetched = await fetch_memory_blocks(
        memory, RUN, query="hi", recall=RECALL, already_visible=["seen"]
    )
    views = await skills().reader.directory(RUN, SkillCapability())
    assert context.memory_blocks == compose_caller_memory(fetched.blocks, "[1]")
    assert context.skills_context == project_skills_directory(views)
    assert context.tools == [{"name": "read"}]
    assert context.output_schema is not None
    assert (context.budget, context.planning_hints) == ({"tokens": 1}, {"a": 1})
    assert context.model_overrides == {"temperature": 0}
    assert context.trust is Trust.QUARANTINED_CONTENT
    assert context.facts.recall == fetched.report
    assert (context.facts.tiers, context.facts.skills) == (("external",), 1)
    assert context.facts.caller_memory_bytes == 3


async def test_every_tool_is_shown_where_no_scopes_are_named() -> None:
    context = await made(Sources(tools=Tools()))
    assert context.tools is not None
    assert len(context.tools) == 2


@pytest.mark.parametrize("missing", ["tenant", "user", "session"])
async def test_c167_an_incomplete_identity_makes_no_context(missing: str) -> None:
    with pytest.raises(IdentityRequired, match=missing):
        await made(identity=replace(RUN, **{missing: " "}))


async def test_c167_a_run_may_be_empty_and_a_reader_must_be_of_the_same_run() -> None:
    assert (await made(identity=ALICE)).identity is ALICE
    with pytest.raises(ForeignSkillReader):
        await made(Sources(skills=skills(replace(RUN, run="run_2"))))
    with pytest.raises(ForeignSkillReader):
        await made(Sources(skills=skills()), ALICE)


async def test_errors_of_the_parts_leave_as_they_are() -> None:
    error = RuntimeError("broken")
    with pytest.raises(RuntimeError) as caught:
        await made(Sources(memory=OfferedMemory(error)))
    assert caught.value is error
    with pytest.raises(CallerMemoryInvalid):
        await made(caller_memory="null")
    with pytest.raises(ValueError, match="output schema"):
        await made(output_schema={"type": 7})


async def test_c168_a_hundred_runs_at_once_hold_their_own() -> None:
    store = KeptMemory(window=1)
    runs = [replace(ALICE, session=f"conv_{n}", run=f"run_{n}") for n in range(100)]
    for run in runs:
        await store.add_turn(run.session_scope(), turn(run.session, "yes"))
    sources = Sources(memory=store)
    contexts = await asyncio.gather(
        *(made(sources, run, caller_memory=f'"{run.run}"') for run in runs)
    )
    for run, context in zip(runs, contexts, strict=True):
        assert context.memory_blocks is not None
        assert context.memory_blocks.external == {"caller_supplied": run.run}
        conversation: Any = context.memory_blocks.conversation
        assert conversation["recent_turns"] == [{"user": run.session, "assistant": "yes"}]
    assert len({id(context.trajectory) for context in contexts}) == 100
    assert len({id(context.counters) for context in contexts}) == 100


class Listed(Shelf):
    """A shelf that lists its files, unless it fails."""

    is_failing = False

    async def list(self, identity: Identity) -> list[ArtifactRef]:
        if self.is_failing:
            raise OSError("the disk is gone")
        return list(self.refs.values())


async def test_c162_a_failing_list_costs_the_manifest_alone() -> None:
    shelf = Listed(ref("art_1"))
    shelf.is_failing = True
    with capture_logs() as lines:
        context = await made(Sources(artifacts=shelf), MINE, artifact_ids=["art_1"])
    assert context.session_artifacts is None
    assert [one.id for one in context.input_artifacts or ()] == ["art_1"]
    warnings = [line["event"] for line in lines if line["log_level"] == "warning"]
    assert warnings == ["manifest.unavailable"]


async def test_without_a_store_there_is_no_manifest_and_a_warning() -> None:
    """run-context.md 7; where no manifest is wanted nothing is missed."""
    with capture_logs() as lines:
        context = await made()
        unwanted = await made(manifest=False)
    assert (context.session_artifacts, unwanted.session_artifacts) == (None, None)
    assert [(line["event"], line["error"]) for line in lines] == [
        ("manifest.unavailable", "store_missing")
    ]


async def test_c166_files_are_what_their_own_functions_return() -> None:
    shelf = Listed(ref("art_1"))
    context = await made(Sources(artifacts=shelf), MINE, artifact_ids=["art_1", "gone"])
    resolved = await resolve_input_artifacts(shelf, MINE, ids=["art_1", "gone"])
    assert context.input_artifacts == resolved.views
    assert context.facts.inputs == resolved.facts
    assert context.session_artifacts == project_session_artifacts([ref("art_1")])
    unlisted = await made(Sources(artifacts=shelf), MINE, manifest=False)
    assert (unlisted.session_artifacts, unlisted.input_artifacts) == (None, None)
