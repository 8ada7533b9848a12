"""The values that run-context.md fixes: their members, types and defaults, written from its text.

Where a class of ours has a member more, `MORE` names it, and its docstring says why.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import Any, Final

import pytest

from app.engine.finish import Finish
from app.ids import Identity
from app.runctx.answer import AnswerEnvelope
from app.runctx.assemble import RunContextOptions, Sources
from app.runctx.attach import InputOptions, InputResolved, ResolvedInputs
from app.runctx.context import RunContext
from app.runctx.disposition import Degradation
from app.runctx.memory import (
    ConversationTurn,
    LLMContextPatch,
    MemoryBlocks,
    MemoryFetch,
    RecallReport,
    RecallSettings,
    SearchResult,
)
from app.runctx.shapes import InputArtifactView
from app.runctx.skill import RankedSkill

TYPED: Final[dict[type, str]] = {
    Identity: 'tenant: str; user: str; session: str; run: str = ""',
    RecallSettings: "enabled: bool = False; top_k: int = 0; min_score: float = 0.0; "
    'scope: RecallScope = "session"; budget_bytes: int = 16384',
    MemoryBlocks: "external: JsonValue | None; conversation: JsonValue | None; trust: Trust",
    MemoryFetch: "blocks: MemoryBlocks | None; report: RecallReport",
    RecallReport: 'requested: bool; recall_skipped: Literal["empty_query"] | None; top_k: int; '
    "returned: int; kept: int; dropped_non_finite: int; dropped_by_floor: int; "
    "dropped_by_window: int; dropped_by_duplicate: int; dropped_by_budget: int; "
    "truncated_texts: int; kept_bytes: int; unindexed: int; top_score: float | None",
    InputOptions: "hints: Mapping[str, Disposition] | None = None; "
    "policy: DispositionPolicy | None = None; catalog: ToolCatalog | None = None; "
    "inline_max_bytes: int = 5_242_880; inline_total_max_bytes: int = 20_971_520",
    InputArtifactView: "id: str; mime: str; size_bytes: int; filename: str; sha256: str; "
    "disposition: str; trust: Trust; content: bytes | None = None",
    ResolvedInputs: "views: list[InputArtifactView] | None; "
    "facts: tuple[InputResolved | InputSkipped, ...]; trust: Trust",
    AnswerEnvelope: "answer: str; finish_reason: FinishReason; tool_calls_seen: int; "
    "answer_payload: bytes | None = None",
}
NAMED: Final[dict[type, str]] = {
    Finish: "reason payload metadata",
    LLMContextPatch: "strategy summary summary_trust recent_turns tokens unfolded_turns",
    InputResolved: "artifact_id mime media_type size_bytes disposition layer degraded "
    "degraded_from degradation_reason tool trust",
    Degradation: "from_ to reason tool",
    ConversationTurn: "user_message assistant_response at trust turn_id run session digest "
    "artifacts_shown artifacts_hidden",
    SearchResult: "hits top_k unindexed",
    RankedSkill: "skill score path",
    Sources: "memory recall skills tools artifacts logger",
    RunContextOptions: "artifact_ids hints policy caller_memory granted_scopes planning_hints "
    "model_overrides budget output_schema already_visible",
    RunContext: "identity query goal memory_blocks skills_context input_artifacts "
    "session_artifacts tools output_schema budget planning_hints model_overrides trust facts",
}
MORE: Final[dict[type, set[str]]] = {
    MemoryFetch: {"unfolded_turns"},
    RunContextOptions: {
        "caller_memory_trust",
        "inline_max_bytes",
        "inline_total_max_bytes",
        "manifest",
    },
    RunContext: {"at", "trajectory", "counters"},
}


@pytest.mark.parametrize("cls", TYPED, ids=lambda cls: cls.__name__)
def test_values_have_the_members_of_the_specification(cls: Any) -> None:
    own = fields(cls)
    wanted = [one for one in ast.parse(TYPED[cls]).body if isinstance(one, ast.AnnAssign)]
    assert [(name, one.type) for name, one in own.items()] == [
        (ast.unparse(one.target), ast.unparse(one.annotation)) for one in wanted
    ]
    for one in wanted:
        if one.value is not None:
            assert own[ast.unparse(one.target)].default == ast.literal_eval(one.value)


@pytest.mark.parametrize("cls", NAMED, ids=lambda cls: cls.__name__)
def test_values_have_the_names_of_the_specification(cls: Any) -> None:
    assert sorted(fields(cls)) == sorted(NAMED[cls].split())


@pytest.mark.parametrize("cls", [*TYPED, *NAMED], ids=lambda cls: cls.__name__)
def test_values_are_frozen_and_slotted(cls: Any) -> None:
    assert cls.__dataclass_params__.frozen
    assert "__slots__" in vars(cls)


def fields(cls: Any) -> dict[str, Any]:
    """The fields that the specification has too."""
    more = MORE.get(cls, set())
    return {one.name: one for one in dataclasses.fields(cls) if one.name not in more}
