"""What a turn returns (turn.md 9). Waiting for a person is a result, never a blocked coroutine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.engine.agent_run import AgentRun
    from app.engine.messages import Message
    from app.engine.usage import Usage
    from app.log.payload import WorkerRef
    from app.policy.capability import CapabilitySet
    from app.turn.forms.question import Question
    from app.turn.ports import FailureKind


class EndedBy(StrEnum):
    """How a turn came to its end."""

    ANSWER = "answer"
    PAUSE = "pause"
    STEP_CAP = "step_cap"
    DENIAL_CAP = "denial_cap"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingApproval:
    """A call that waits for a person.

    `occurrence_turn_id` is None for a call of the running turn and names the emitting turn for an
    older one that is asked again. `requires_human`: the consent rule asks about every call of the
    tool, whatever is missing. `supersedes` names the approval that this request replaces.
    """

    request_id: str
    call_id: str
    tool_name: str
    title: str
    args_json: str
    reason: str
    required: CapabilitySet
    missing: CapabilitySet
    definition_digest: str = ""
    occurrence_turn_id: str | None = None
    outcome_unknown: bool = False
    requires_human: bool = False
    sandbox_escalation: bool = False
    supersedes: str | None = None
    worker: WorkerRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuestion:
    """One open question of an `ask_question` call."""

    call_id: str
    index: int
    question: Question
    arguments_json: str
    occurrence_turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class UnattendedDenial:
    """A call refused because nobody could be asked (turn.md 7.5)."""

    tool: str
    args_json: str
    reason: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GrantReplayClear:
    """A use of a remembered grant that changed a verdict (turn.md 6.8)."""

    call_id: str
    tool: str
    grant_ref: str
    coverage_hash: str
    cleared: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegateRecord:
    """One dispatched delegation that came to its end (turn.md 7.1).

    `sub_agent_id` is the call id of the delegation. `usage` is all that the worker spent, over
    every turn of it. `provider` and `model` are empty where it could not begin. `first_party`: none
    of its tools lets content in from outside.
    """

    sub_agent_id: str
    target: str
    task: str
    context: str | None
    provider: str
    model: str
    usage: Usage
    succeeded: bool
    error: str | None
    first_party: bool
    grant_replays: tuple[GrantReplayClear, ...] = ()
    unattended_denials: tuple[UnattendedDenial, ...] = ()
    shared_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PausedWorker:
    """A worker that waits for a person; `run` holds its messages, to be kept until it goes on."""

    worker: WorkerRef
    run: AgentRun
    is_tainted: bool


@dataclass(frozen=True, slots=True)
class MidStreamFailure:
    """A provider that broke after its first chunk; the partial text was kept as a message."""

    kind: FailureKind
    message: str
    had_text: bool


@dataclass(frozen=True, slots=True)
class TurnFailure:
    """Why the turn could not end; everything it produced before stands."""

    kind: FailureKind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """Everything a turn produced."""

    messages: tuple[Message, ...]
    usage: Usage
    stop: str | None
    ended_by: EndedBy
    text: str
    steps: int
    executed_calls: int
    tainted: bool
    pending_approvals: tuple[PendingApproval, ...] = ()
    pending_questions: tuple[PendingQuestion, ...] = ()
    unattended_denials: tuple[UnattendedDenial, ...] = ()
    grant_replays: tuple[GrantReplayClear, ...] = ()
    delegate_records: tuple[DelegateRecord, ...] = ()
    paused_workers: tuple[PausedWorker, ...] = ()
    mid_stream_failure: MidStreamFailure | None = None
    failure: TurnFailure | None = None
    grounded: bool = False

    @property
    def met_taint(self) -> bool:
        """Whether the turn, or a worker that waits, works from untrusted content."""
        return self.tainted or any(paused.is_tainted for paused in self.paused_workers)
