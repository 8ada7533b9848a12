"""What the stages of one turn share: read-only inputs, working state, and the facts stated so far.

A fact is stated when it happens and recorded with the next `flush`: before anything runs and before
the model is asked again. What is stated last is committed together with the turn's end. So a step
costs few commits, and whatever has an effect is in the log first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from app.engine.usage import Usage
from app.policy.taint import Trust
from app.turn.ports import Fact
from app.turn.result import EndedBy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.engine.agent_run import AgentRun
    from app.engine.messages import Message
    from app.engine.streaming.items import StreamItem
    from app.log.payload import Payload
    from app.policy.capability import CapabilitySet
    from app.policy.grants import RememberedGrant, SessionApproval
    from app.turn.agent import BoundAgent
    from app.turn.folded import Folded
    from app.turn.forms.output import OutputTool
    from app.turn.options import RunTurnOptions
    from app.turn.ports import Clock, FailureKind, Journal, Provider, ToolExecutor
    from app.turn.result import (
        DelegateRecord,
        GrantReplayClear,
        PausedWorker,
        PendingApproval,
        PendingQuestion,
        TurnResult,
        UnattendedDenial,
    )
    from app.turn.state.answers import AnswerBook
    from app.turn.state.ledger import DecisionLedger
    from app.turn.state.specs import PinnedSpecs
    from app.turn.stream import TurnStreamEvent
    from app.turn.transcript import Note, Transcript


class StepOutcome(Enum):
    """What a stage says of the turn: go on with the next stage, wait for people, or be done."""

    CONTINUE = auto()
    PAUSE = auto()
    FINISH = auto()


class TurnStep(Protocol):
    """One stage of a turn."""

    async def run(self, ctx: TurnCtx) -> StepOutcome: ...


@dataclass(frozen=True, slots=True)
class Partial:
    """What had arrived of a reply that nothing can be done with, and why it ended.

    `may_be_grounded`: a search may have gone into it, for some providers tell that at the end only.
    """

    items: tuple[StreamItem, ...]
    stop: str
    usage: Usage
    may_be_grounded: bool


class TurnFailed(Exception):
    """The turn cannot end well; `run_turn` makes a failure of it and keeps a partial reply."""

    def __init__(self, kind: FailureKind, message: str, *, partial: Partial | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.partial = partial


class NestedTurn(Protocol):
    """The way to a worker's turn: `run_turn` itself."""

    async def __call__(  # noqa: PLR0913 - the signature is turn.md 2.1's
        self,
        provider: Provider,
        tools: ToolExecutor,
        agent: BoundAgent,
        transcript: Transcript,
        options: RunTurnOptions,
        *,
        run_id: str,
        turn_id: str,
        journal: Journal,
    ) -> TurnResult: ...


@dataclass(slots=True, kw_only=True)
class TurnCtx:
    """One turn in progress. The options are never changed: what is used up is used up here.

    `step` is the number of the model call at hand, counted over the run; the AgentRun may be one
    ahead, because it asks for a better answer at once. `folded` stands for the messages that are
    left out; no summary is asked for below `compact_from` messages.
    """

    provider: Provider
    tools: ToolExecutor
    agent: BoundAgent
    options: RunTurnOptions
    transcript: Transcript
    journal: Journal
    clock: Clock
    run_id: str
    turn_id: str
    max_steps: int
    now_unix_ms: int | None
    specs: PinnedSpecs
    ledger: DecisionLedger
    answers: AnswerBook
    nested: NestedTurn
    tainted: bool
    step: int
    output: OutputTool | None = None

    steps: int = 0
    attempt: int = 0
    executed_calls: int = 0
    outputs: list[Message] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    total_usage: Usage = field(default_factory=Usage)
    last_stop: str | None = None
    last_text: str = ""
    grounded: bool = False
    ended_by: EndedBy = EndedBy.FAILURE
    folded: Folded | None = None
    compact_from: int = 0
    malformed_steps: int = 0
    denial_reprompts: int = 0
    denied_sigs: dict[tuple[str, bytes], str] = field(default_factory=dict)
    escape_hatch_fired: bool = False
    ended_grants: set[str] = field(default_factory=set)
    grant_replays: list[GrantReplayClear] = field(default_factory=list)
    unattended_denials: list[UnattendedDenial] = field(default_factory=list)
    pending_approvals: list[PendingApproval] = field(default_factory=list)
    pending_questions: list[PendingQuestion] = field(default_factory=list)
    delegations_used: int = 0
    delegate_records: list[DelegateRecord] = field(default_factory=list)
    paused_workers: list[PausedWorker] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    @property
    def run(self) -> AgentRun:
        """The machine that holds the state of the conversation with the model."""
        return self.transcript.run

    @property
    def granted(self) -> CapabilitySet:
        """What the agent may do without asking, as things stand now."""
        return self.agent.grant_policy.granted(self.tainted)

    @property
    def waits_for_people(self) -> bool:
        """Whether any call so far needs a decision or an answer."""
        return bool(self.pending_approvals or self.pending_questions)

    def session_approval(self, tool: str) -> SessionApproval | None:
        """The principal's standing consent to a tool; a worker has no share in it."""
        if self.options.is_delegated_worker:
            return None
        return self.options.session_approved_tools.get(tool)

    def remembered_grants(self, tool: str) -> Sequence[RememberedGrant]:
        """The principal's grants for a tool that serve yet; a worker has no share in them."""
        if self.options.is_delegated_worker:
            return ()
        return [
            grant
            for grant in self.options.remembered_grants.get(tool, ())
            if grant.grant_ref not in self.ended_grants
        ]

    def fact(
        self, payload: Payload, *, trust: Trust = Trust.UNSPECIFIED, private: bytes | None = None
    ) -> Fact:
        """A fact of the step at hand."""
        return Fact(payload, self.step, trust, private)

    def state(
        self, payload: Payload, *, trust: Trust = Trust.UNSPECIFIED, private: bytes | None = None
    ) -> None:
        """State a fact; the next `flush` makes it durable."""
        self.facts.append(self.fact(payload, trust=trust, private=private))

    def state_all(self, payloads: Iterable[Payload]) -> None:
        """State several facts that have nothing of their own to carry."""
        for payload in payloads:
            self.state(payload)

    async def flush(self) -> None:
        """Make everything stated so far durable."""
        if self.facts:
            stated, self.facts = tuple(self.facts), []
            await self.journal.record(*stated)

    def conclude(self) -> None:
        """Leave what was stated last to be committed with the turn's end."""
        stated, self.facts = tuple(self.facts), []
        self.journal.conclude(*stated)

    async def send(self, event: TurnStreamEvent) -> None:
        """Show an event to readers, if there are any; waits for a slow one."""
        if self.options.stream_tx is not None:
            await self.options.stream_tx.send(event)
