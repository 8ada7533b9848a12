"""A run in memory whose worker can die anywhere, and what its people said about its calls."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from app.log.calls import ToolCompleted, ToolFailed, ToolSettled, ToolStarted
from app.policy.capability import ALL_CAPABILITIES, NO_CAPABILITIES, Capability
from app.policy.grants import SessionApproval
from app.policy.taint import Trust
from app.turn.agent import BoundAgent
from app.turn.ports import DispatchDeny, ToolOutcome
from tests.support.killed import Killed
from tests.support.turn_journal import MemoryJournal
from tests.support.turn_provider import EndlessProvider, called, reply, said
from tests.support.turn_tools import CONNECTOR, EGRESS, POST, READ, WRITE, MemoryTool
from tests.support.turn_world import World, approve, deny

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.agent_run import AgentRun
    from app.engine.streaming.items import StreamItem
    from app.log.calls import ReplyPart
    from app.turn.options import ApprovalDecision
    from app.turn.ports import Fact, ToolInvocation
    from app.turn.result import PendingApproval, TurnResult
    from app.turn.transcript import LoggedCall

Result = ToolCompleted | ToolFailed | ToolSettled
CEILING: Final = ALL_CAPABILITIES - {Capability.MANAGE_ADMIN}
TOOLS: Final = (
    MemoryTool("read", READ),
    MemoryTool("crm", CONNECTOR),
    MemoryTool("inbox", READ, ingests=True),
    MemoryTool("write", WRITE),
    MemoryTool("fetch", EGRESS),
    MemoryTool("hidden", WRITE, advertised=False),
    MemoryTool("post", POST, asks=True),
    MemoryTool("stamp", WRITE, asks=True, idempotent=True, cacheable=True),
    MemoryTool("share", frozenset({Capability.GRANT_ACCESS})),
    MemoryTool("vetoed", WRITE, decision=DispatchDeny("never")),
    MemoryTool("admin", frozenset({Capability.MANAGE_ADMIN})),
)


class Moment(StrEnum):
    """Where a turn is interrupted."""

    BEFORE_COMMIT = "before a commit"
    AFTER_COMMIT = "after a commit"
    IN_TOOL = "in a tool, its effect done"
    CANCEL = "cancelled after a commit"


@dataclass(frozen=True, slots=True)
class Death:
    """The end of a worker, at the nth of such moments of a turn (from 0)."""

    moment: Moment
    at: int


@dataclass(slots=True)
class DeadlyJournal(MemoryJournal):
    """A journal whose worker dies, or whose turn is cancelled, at a commit."""

    death: Death | None = None
    turn: asyncio.Task[Any] | None = None
    recorded: int = 0

    @override
    async def record(self, *facts: Fact) -> None:
        moment = self._moment()
        if moment is Moment.BEFORE_COMMIT:
            raise Killed
        # Named, since a slotted dataclass is made anew and `super()` would miss it.
        await MemoryJournal.record(self, *facts)
        if moment is Moment.AFTER_COMMIT:
            raise Killed
        if moment is Moment.CANCEL and self.turn is not None:
            self.turn.cancel()

    def _moment(self) -> Moment | None:
        at, self.recorded = self.recorded, self.recorded + 1
        return self.death.moment if self.death is not None and self.death.at == at else None


@dataclass(frozen=True, slots=True)
class Given:
    """What a person said of a card, and how often the call had been started by then."""

    card: PendingApproval
    decision: ApprovalDecision
    starts: int

    @property
    def effective(self) -> str:
        """The canonical arguments that the person let run."""
        edit = self.decision.override
        return edit.modified_args_json if edit else self.card.args_json


class MachineWorld(World):
    """The service's part between two turns, done from the journal alone."""

    journal: DeadlyJournal

    def __init__(self, replies: Sequence[Sequence[tuple[str, str]]], *, hatch: bool) -> None:
        """A world whose model emits these calls, reply by reply, and then says ok."""
        agent = BoundAgent(name="tester", model="prepared", execution_ceiling=CEILING)
        super().__init__([], *(replace(tool, body=self.body) for tool in TOOLS), agent=agent)
        emitted = [
            reply(*[called("c1", tool, text, position=i) for i, (tool, text) in enumerate(calls)])
            for calls in replies
        ]

        def answer(number: int) -> list[StreamItem | Exception]:
            return emitted[number] if number < len(emitted) else reply(said("ok"))

        self.provider = self.endless = EndlessProvider(answer)
        self.tools.recoverable = [self.tools.by_name["hidden"].spec]
        self.journal = DeadlyJournal()
        self.hatch = hatch
        self.given: list[Given] = []
        self.session: dict[str, SessionApproval] = {}
        self._ran_before = self._facts_before = 0

    async def body(self, call: ToolInvocation) -> ToolOutcome:
        """The body of every tool; its effect is that it is among `tools.calls`."""
        assert self.starts(call.call_id), "a call ran before its start was recorded"
        death, ran = self.journal.death, len(self.tools.calls) - self._ran_before
        if death == Death(Moment.IN_TOOL, ran - 1):
            raise Killed
        await asyncio.sleep(0)
        return ToolOutcome(text=f"result of {call.call_id}")

    async def driven(self) -> TurnResult:
        """One turn, with everything that was said and is not used up."""
        self._ran_before = len(self.tools.calls)
        self._facts_before = len(self.journal.facts)
        return await self.turn(
            approval_decisions=self.unused(),
            session_approved_tools=self.session,
            untrusted_context_seed=self.is_tainted,
            escape_hatch=self.hatch,
            max_steps=5,
        )

    async def driven_until(self, death: Death) -> TurnResult | None:
        """One turn that may be cut off there; None if it was, and the run is what the log says."""
        task = asyncio.current_task()
        assert task is not None
        self.journal.death, self.journal.turn, self.journal.recorded = death, task, 0
        try:
            result = await self.driven()
            await asyncio.sleep(0)
        except (Killed, BaseExceptionGroup, asyncio.CancelledError):
            self.crash(len(self.journal.facts))
            return None
        finally:
            self.journal.death = None
        return result

    @override
    def _logged(
        self, part: ReplyPart, position: int, turn_id: str | None, run: AgentRun
    ) -> LoggedCall:
        logged = super()._logged(part, position, turn_id, run)
        ran = [one for one in self.given if one.card.call_id == logged.call_id]
        ran = [one for one in ran if one.decision.approved and one.starts < logged.attempts]
        return replace(logged, started_args=ran[-1].effective) if ran else logged

    # What the people say.

    def approve(self, card: PendingApproval, *, edit: str = "") -> None:
        self._say(card, approve(card, turn_id=self.turn_id, edit=edit))

    def deny(self, card: PendingApproval, *, expired: bool) -> None:
        self._say(card, deny(card, turn_id=self.turn_id, expired=expired))

    def allow_for_session(self, tool: str) -> None:
        self.session[tool] = SessionApproval(NO_CAPABILITIES, f"appr_session_{tool}")

    def _say(self, card: PendingApproval, decision: ApprovalDecision) -> None:
        starts = self.starts(card.call_id)
        named = replace(decision, approval_id=f"appr_{card.call_id}_{starts}")
        self.given.append(Given(card, named, starts))

    def has_decided(self, card: PendingApproval) -> bool:
        """Whether somebody has spoken on this card, and not on an earlier one of its call."""
        starts = self.starts(card.call_id)
        return any(one.card.call_id == card.call_id and one.starts == starts for one in self.given)

    # What the journal says.

    def latest_turn(self) -> list[Fact]:
        """The facts of the turn that was driven last."""
        return self.journal.facts[self._facts_before :]

    def starts(self, call_id: str) -> int:
        """How often the call was started."""
        return sum(one.call_id == call_id for one in self.journal.of(ToolStarted))

    def is_settled(self, call_id: str) -> bool:
        """Whether the call has its result."""
        return any(
            isinstance(fact.payload, Result) and fact.payload.call_id == call_id
            for fact in self.journal.facts
        )

    def unused(self) -> list[ApprovalDecision]:
        """The decisions without a start or a result recorded for them (turn.md 4.4)."""
        return [
            one.decision
            for one in self.given
            if not self.is_settled(one.card.call_id) and self.starts(one.card.call_id) == one.starts
        ]

    @property
    def is_tainted(self) -> bool:
        """Whether anything untrusted is in the log (turn.md 5.5)."""
        return any(fact.trust is Trust.QUARANTINED_CONTENT for fact in self.journal.facts)
