"""The functions that run-context.md fixes: names, kinds, defaults, types, sync or async.

What is declared here is written from the specification, word for word.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

from app.engine.compaction import plan_compaction
from app.ids import Identity
from app.policy.taint import Trust
from app.runctx import ports
from app.runctx.answer import AnswerEnvelope, extract_assistant_answer, finish_answer_envelope
from app.runctx.assemble import RunContextOptions, Sources, new_run_context
from app.runctx.attach import InputOptions, ResolvedInputs, resolve_input_artifacts
from app.runctx.blocks import render_blocks
from app.runctx.caller_memory import compose_caller_memory
from app.runctx.disposition import (
    Degradation,
    disposition_hints,
    effective_disposition,
    parse_disposition,
    resolve_disposition,
)
from app.runctx.fetch import fetch_memory_blocks
from app.runctx.input_parts import render_input
from app.runctx.mime import media_type
from app.runctx.projection import (
    project_memory_blocks,
    project_skills_context,
    project_skills_directory,
)
from app.runctx.skills.reader import SkillReader
from app.runctx.text import cap_text, prompt_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from pydantic import JsonValue
    from structlog.typing import FilteringBoundLogger as Logger

    from app.engine.compaction import CompactionPlan
    from app.engine.finish import Finish
    from app.engine.json.output_schema import CompiledSchema
    from app.engine.messages import Message
    from app.log.attachments import Layer
    from app.runctx.answer import Trajectory
    from app.runctx.context import RunContext
    from app.runctx.disposition import Disposition, DispositionPolicy
    from app.runctx.input_parts import Part
    from app.runctx.memory import (
        ConversationTurn,
        Health,
        LLMContextPatch,
        MemoryBlocks,
        MemoryFetch,
        MemoryState,
        RecallScope,
        RecallSettings,
        SearchResult,
        TurnWritten,
    )
    from app.runctx.ports import ArtifactReader, MemoryStore, ToolCatalog
    from app.runctx.shapes import InputArtifactView
    from app.runctx.skill import RankedSkill, SkillCapability, SkillView


class Section3(Protocol):
    """The ten functions, in the order of the specification."""

    @staticmethod
    def disposition_hints(raw: Mapping[str, str] | None) -> dict[str, Disposition] | None: ...
    @staticmethod
    def extract_assistant_answer(finish: Finish) -> str: ...
    @staticmethod
    async def fetch_memory_blocks(
        store: MemoryStore,
        identity: Identity,
        *,
        query: str,
        recall: RecallSettings,
        already_visible: Collection[str] = (),
        logger: Logger | None = None,
    ) -> MemoryFetch: ...
    @staticmethod
    def project_memory_blocks(patch: LLMContextPatch) -> MemoryBlocks | None: ...
    @staticmethod
    def project_skills_context(ranked: Sequence[RankedSkill] | None) -> list[JsonValue] | None: ...
    @staticmethod
    def project_skills_directory(views: Sequence[SkillView] | None) -> list[JsonValue] | None: ...
    @staticmethod
    async def resolve_input_artifacts(
        store: ArtifactReader | None,
        identity: Identity,
        *,
        ids: Sequence[str] | None,
        options: InputOptions | None = None,
        logger: Logger | None = None,
    ) -> ResolvedInputs: ...
    @staticmethod
    def finish_answer_envelope(
        finish: Finish,
        *,
        trajectory: Trajectory | None = None,
        schema: CompiledSchema | None = None,
    ) -> AnswerEnvelope: ...
    @staticmethod
    def compose_caller_memory(
        blocks: MemoryBlocks | None,
        raw: bytes | str | None,
        *,
        trust: Trust = Trust.QUARANTINED_CONTENT,
    ) -> MemoryBlocks | None: ...
    @staticmethod
    async def new_run_context(
        sources: Sources,
        identity: Identity,
        *,
        goal: str,
        now: datetime,
        options: RunContextOptions | None = None,
    ) -> RunContext: ...


class OtherSections(Protocol):
    """What sections 3.3, 4, 8 and 10 fix beside the ten."""

    @staticmethod
    def cap_text(text: str) -> str: ...
    @staticmethod
    def parse_disposition(text: str) -> Disposition: ...
    @staticmethod
    def media_type(mime: str) -> str: ...
    @staticmethod
    def resolve_disposition(
        hint: Disposition | None, policy: DispositionPolicy | None, mime: str
    ) -> tuple[str, Layer]: ...
    @staticmethod
    def effective_disposition(
        value: str, mime: str, catalog: ToolCatalog | None
    ) -> tuple[str, Degradation | None]: ...
    @staticmethod
    def render_input(
        goal: str, views: Sequence[InputArtifactView] | None, catalog: ToolCatalog | None
    ) -> str | list[Part]: ...
    @staticmethod
    def render_blocks(context: RunContext) -> list[Message]: ...
    @staticmethod
    def prompt_json(value: JsonValue) -> str: ...
    @staticmethod
    def plan_compaction(
        messages: Sequence[Message], *, keep: int = 20, open_calls: Collection[str]
    ) -> CompactionPlan | None: ...


class MemoryStoreOf5(Protocol):
    """The port of section 5.1; its `Scope` is called `RecallScope` here."""

    async def add_turn(self, identity: Identity, turn: ConversationTurn) -> TurnWritten: ...
    async def get_llm_context(self, identity: Identity) -> LLMContextPatch: ...
    async def search_turns(
        self, identity: Identity, query: str, *, top_k: int, scope: RecallScope
    ) -> SearchResult: ...
    async def estimate_tokens(self, identity: Identity) -> int: ...
    async def flush(self, identity: Identity) -> None: ...
    async def health(self, identity: Identity) -> Health: ...
    async def export_state(self, identity: Identity) -> MemoryState: ...
    async def import_state(self, identity: Identity, state: MemoryState) -> None: ...
    async def aclose(self) -> None: ...


class EmbedderOf5(Protocol):
    """The port of section 5.4."""

    async def embed(self, texts: Sequence[str], *, identity: Identity) -> list[list[float]]: ...


class SummarizerOf10(Protocol):
    """The port of sections 5.2 and 10."""

    async def summarize(self, prior: str, items: Sequence[str], *, identity: Identity) -> str: ...


class SkillReaderOf6(Protocol):
    """The directory of section 6."""

    async def directory(
        self, identity: Identity, capability: SkillCapability
    ) -> tuple[SkillView, ...]: ...


class IdentityOf2(Protocol):
    """The methods of section 2."""

    def session_scope(self) -> Identity: ...
    def require(self, *, run: bool = False) -> None: ...


TEN: Final = (
    disposition_hints,
    extract_assistant_answer,
    fetch_memory_blocks,
    project_memory_blocks,
    project_skills_context,
    project_skills_directory,
    resolve_input_artifacts,
    finish_answer_envelope,
    compose_caller_memory,
    new_run_context,
)
OTHERS: Final = (
    cap_text,
    parse_disposition,
    media_type,
    resolve_disposition,
    effective_disposition,
    render_input,
    render_blocks,
    prompt_json,
    plan_compaction,
)
METHODS: Final = (
    (MemoryStoreOf5, ports.MemoryStore),
    (EmbedderOf5, ports.Embedder),
    (SummarizerOf10, ports.Summarizer),
    (SkillReaderOf6, SkillReader),
    (IdentityOf2, Identity),
)


@pytest.mark.parametrize(
    ("spec", "functions"), [(Section3, TEN), (OtherSections, OTHERS)], ids=["section 3", "others"]
)
def test_the_functions_have_the_signatures_of_the_specification(
    spec: type, functions: tuple[Any, ...]
) -> None:
    assert declared(spec) == {function.__name__: shape(function) for function in functions}


@pytest.mark.parametrize(("spec", "ours"), METHODS)
def test_ports_and_values_have_the_methods_of_the_specification(spec: type, ours: type) -> None:
    wanted = declared(spec)
    assert wanted == {name: shape(vars(ours)[name]) for name in wanted}


def test_an_embedder_has_an_id_and_a_dimension_and_a_summarizer_a_model() -> None:
    """The summariser's model is a fact of `history.compacted` (run-context.md 10)."""
    named = [(ports.Embedder, "id"), (ports.Embedder, "dimension"), (ports.Summarizer, "model")]
    returned = [inspect.signature(vars(port)[name].fget).return_annotation for port, name in named]
    assert returned == ["str", "int", "str"]


def shape(function: Any) -> tuple[inspect.Signature, bool]:
    return inspect.signature(function), inspect.iscoroutinefunction(function)


def declared(spec: type) -> dict[str, tuple[inspect.Signature, bool]]:
    """What a protocol of this file declares."""
    functions = {
        name: getattr(member, "__func__", member)
        for name, member in vars(spec).items()
        if not name.startswith("_")
    }
    return {name: shape(function) for name, function in functions.items()}
