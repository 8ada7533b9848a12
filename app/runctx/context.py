"""The context of a run as a value: every part that the model is shown, and what the parts tell.

An absent part is None and leaves no trace in a prompt (run-context.md 3.10).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.engine.machine.record import RunCounters
from app.policy.taint import Trust
from app.runctx.answer import Trajectory
from app.runctx.memory import RecallReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pydantic import JsonValue

    from app.engine.json.output_schema import CompiledSchema
    from app.ids import Identity
    from app.runctx.attach import InputResolved, InputSkipped
    from app.runctx.memory import MemoryBlocks
    from app.runctx.shapes import InputArtifactView


@dataclass(frozen=True, slots=True)
class ContextFacts:
    """What the parts did, without content: counts and sizes."""

    recall: RecallReport = field(default_factory=RecallReport)
    tiers: tuple[str, ...] = ()
    unfolded_turns: int = 0
    skills: int = 0
    caller_memory_bytes: int = 0
    inputs: tuple[InputResolved | InputSkipped, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What one run is shown, as of `at`. `query` is what memory was asked, `goal` what it is about.

    `tools` are their schemas alone.
    """

    identity: Identity
    query: str
    goal: str
    at: datetime
    memory_blocks: MemoryBlocks | None = None
    skills_context: Sequence[JsonValue] | None = None
    input_artifacts: Sequence[InputArtifactView] | None = None
    session_artifacts: Sequence[JsonValue] | None = None
    tools: Sequence[JsonValue] | None = None
    output_schema: CompiledSchema | None = None
    budget: Mapping[str, JsonValue] | None = None
    planning_hints: Mapping[str, JsonValue] | None = None
    model_overrides: Mapping[str, JsonValue] | None = None
    trust: Trust = Trust.UNSPECIFIED
    facts: ContextFacts = ContextFacts()
    trajectory: Trajectory = field(default_factory=Trajectory)
    counters: RunCounters = field(default_factory=RunCounters)
