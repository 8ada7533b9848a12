"""The service's part between two turns, done from the log alone, and what each turn was given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from app.log.approvals import ApprovalResolved, QuestionAsked
from app.log.runs import (
    MessageUser,
    RunCheckpointed,
    RunPaused,
    RunResumed,
    RunStarted,
    TextContent,
)
from app.turn.result import EndedBy
from tests.support.log.logbook import request
from tests.turn.machine.drive import Inputs, Recording, Taken, taken
from tests.turn.machine.history import History
from tests.turn.machine.house import Policy
from tests.turn.machine.law import Circumstances
from tests.turn.machine.people import People, approved_elsewhere
from tests.turn.machine.runlog import RUN, Moment, own

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.engine.agent_run import AgentRun
    from app.log.envelope import Event, NewEvent
    from app.log.payload import WorkerRef
    from app.turn.options import ApprovalDecision, Identity
    from app.turn.result import TurnResult
    from tests.turn.machine.history import Call
    from tests.turn.machine.people import Card
    from tests.turn.machine.runlog import Death
    from tests.turn.machine.script import Reply


@dataclass(frozen=True, slots=True)
class Kind:
    """What is settled about a run when it begins."""

    replies: tuple[Reply, ...]
    orders: tuple[Reply, ...] = ()
    hatch: bool = False
    unattended: bool = False
    checkpoints: bool = True
    forwarded: bool = True
    # Whether decisions say which turn they are about, and not which call, where that is enough.
    by_turn: bool = False
    # Identities that were approved or denied before the run began.
    approved: frozenset[Identity] = frozenset()
    denied: frozenset[Identity] = frozenset()
    # What was approved in an earlier turn of the conversation, where it was said as well.
    elsewhere: frozenset[Identity] = frozenset()

    @property
    def staffed(self) -> bool:
        """Whether there are workers to delegate to."""
        return bool(self.orders)


@dataclass(slots=True)
class Drive:
    """One drive of the run: what went in, what came out, and who had said what by then.

    `forwarded` are the decisions that were not used up, `spent` those that were.
    """

    inputs: Inputs
    taken: Taken
    began: int
    ended: int
    there: Circumstances
    forwarded: tuple[ApprovalDecision, ...]
    spent: tuple[ApprovalDecision, ...]
    known: list[Event]
    waited: tuple[Card, ...] = ()
    shown: tuple[Card, ...] = ()

    @property
    def result(self) -> TurnResult | None:
        return self.taken.result


@dataclass(slots=True)
class World:
    """One run, from its first word to its end."""

    kind: Kind
    policy: Policy = field(default_factory=Policy)
    recording: Recording = Recording.WORKS
    people: People = field(default_factory=People)
    history: History = field(default_factory=History)
    events: list[NewEvent] = field(default_factory=list)
    drives: list[Drive] = field(default_factory=list)
    is_over: bool = False
    _known: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        """The run is created."""
        said = (TextContent(text="do it"),)
        message = MessageUser(message_id="msg_0", content=said, principal="alice")
        self.events.append(own(message, turn_id="turn_0"))

    def script(self, thread: str) -> tuple[Reply, ...]:
        """What the model of that thread plays."""
        return self.kind.orders if thread else self.kind.replies

    def sent(self, call: Call) -> str:
        """The text of a call's arguments, as the model sent it."""
        return self.script(call.thread)[call.batch].calls[call.place][1]

    def there(self, call: Call, index: int, drive: int) -> Circumstances:
        """What counted for a call at that place of the log; a worker has no standing consents."""
        given = self.drives[drive].there
        return Circumstances(
            given.policy,
            tainted=self.history.threads[call.thread].is_tainted(index),
            unattended=given.unattended,
            records=given.records,
            grants=frozenset() if call.thread else given.grants,
            sessions=frozenset() if call.thread else given.sessions,
        )

    def drive(self, death: Death | None = None, *, stale: bool = False) -> Drive:
        """One turn, with everything that was said and is not used up; `stale`: also what is."""
        number = len(self.drives) + 1
        turn_id = f"turn_{number}"
        begins = RunStarted if number == 1 else RunResumed
        self.events.append(own(begins(attempt=number, worker="w"), turn_id=turn_id))
        self.history.begin(self.events, self.policy.ingests)
        forwarded, spent = tuple(self._forwarded()), tuple(self._spent() if stale else ())
        inputs = Inputs(
            before=tuple(self.events),
            turn_id=turn_id,
            replies=self.kind.replies,
            orders=self.kind.orders,
            policy=self.policy,
            decided=self.people.decided,
            options=self._options((*forwarded, *spent)),
            recording=self.recording,
            staffed=self.kind.staffed,
            death=death,
            forwarded=self.kind.forwarded,
        )
        came = asyncio.run(taken(inputs, self._known))
        drove = Drive(
            inputs,
            came,
            began=len(self.events),
            ended=len(came.events),
            there=self._circumstances(),
            forwarded=forwarded,
            spent=spent,
            known=list(self._known),
            waited=tuple(self.people.undecided()),
        )
        self.drives.append(drove)
        self.events = list(came.events)
        self.history.take(self.events)
        self._close(drove)
        return drove

    def _options(self, decisions: tuple[ApprovalDecision, ...]) -> dict[str, Any]:
        first = not self.drives
        return {
            "approval_decisions": [self._worded(one) for one in decisions],
            "approved_call_ids": self.kind.approved if first else frozenset(),
            "denied_call_ids": self.kind.denied if first else frozenset(),
            "session_approved_tools": dict(self.people.sessions),
            "remembered_grants": self.people.remembered(),
            "grant_register": self.people,
            "question_answers": [
                one for one in self.people.answers if not self.is_settled(one.call_id)
            ],
            "untrusted_context_seed": self.history.tainted_at is not None,
            "unattended": self.kind.unattended,
            "escape_hatch": self.kind.hatch,
        }

    def _circumstances(self) -> Circumstances:
        people = self.people
        return Circumstances(
            self.policy,
            unattended=self.kind.unattended,
            records=self.recording is not Recording.ABSENT,
            grants=frozenset(
                (tool, one.covered) for tool, one in people.grants.items() if one.state == "live"
            ),
            sessions=frozenset((tool, one.covered) for tool, one in people.sessions.items()),
        )

    def _forwarded(self) -> Iterable[ApprovalDecision]:
        """The decisions that are not used up, in the order of their requests."""
        for card in self.people.cards:
            if card.said is not None and not card.over and not self.is_used(card):
                yield card.said

    def _spent(self) -> Iterable[ApprovalDecision]:
        """The decisions that are used up, their calls being started, settled or another turn's.

        Nothing tells the second use of an answer to "run it again?" from its first.
        """
        if not self.drives:
            yield from map(approved_elsewhere, self.kind.elsewhere)
        for card in self.people.cards:
            is_told_apart = self.is_settled(card.call_id) or not card.pending.outcome_unknown
            if card.said is not None and self.is_used(card) and is_told_apart:
                yield card.said

    def _worded(self, decision: ApprovalDecision) -> ApprovalDecision:
        """The decision as it is handed in: the turn is enough where it emitted one such call."""
        alike = [
            call
            for call in self.history.calls.values()
            if call.tool == decision.tool_name
            and self.drives[call.drive].inputs.turn_id == decision.turn_id
            and call.call_id != decision.call_id
            and not call.results
        ]
        return replace(decision, call_id=None) if self.kind.by_turn and not alike else decision

    def is_settled(self, call_id: str) -> bool:
        """Whether the call has its result."""
        return bool(self.history.calls[call_id].results)

    def is_used(self, card: Card) -> bool:
        """Whether the decision on the card has had its effect (turn.md 4.4)."""
        starts = self.history.calls[card.call_id].starts
        covers = {start.covered_by.id for start in starts if start.covered_by is not None}
        return card.approval_id in covers or self.is_settled(card.call_id)

    # How a turn is closed.

    def _close(self, drove: Drive) -> None:
        for event in self.events[drove.began :]:
            if isinstance(event.payload, ApprovalResolved):
                self.people.card_of(event.payload.approval_id).over = True
        result, death = drove.result, drove.inputs.death
        if result is None:
            self.is_over = death is not None and death.moment is Moment.CANCEL
        elif result.ended_by is EndedBy.PAUSE:
            self._pause(drove, result)
        else:
            self.is_over = True
        self.history.take(self.events)

    def _pause(self, drove: Drive, result: TurnResult) -> None:
        turn_id, people = drove.inputs.turn_id, self.people
        assert drove.taken.run is not None
        if self.kind.checkpoints:
            for paused in result.paused_workers:
                self._checkpoint(paused.run, turn_id, paused.worker)
            self._checkpoint(drove.taken.run, turn_id)
        known = {card.approval_id for card in people.cards}
        drove.shown = tuple(
            people.show(
                pending,
                turn_id,
                starts=len(self.history.calls[pending.call_id].starts),
                at=len(self.events),
            )
            for pending in result.pending_approvals
        )
        for card in drove.shown:
            if card.approval_id not in known:
                self._requested(card, turn_id)
        people.questions = list(result.pending_questions)
        for call_id in dict.fromkeys(one.call_id for one in result.pending_questions):
            self._asked(call_id, turn_id)
        waiting = tuple(card.approval_id for card in drove.shown)
        self.events.append(own(RunPaused(approvals=waiting, questions=()), turn_id=turn_id))

    def _checkpoint(self, run: AgentRun, turn_id: str, worker: WorkerRef | None = None) -> None:
        document = run.dump_json().encode()
        fact = RunCheckpointed(engine_format=1, sha256="", size_bytes=0, worker=worker)
        self.events.append(own(fact, turn_id=turn_id, private=document))

    def _requested(self, card: Card, turn_id: str) -> None:
        if (replaced := card.pending.supersedes) is not None:
            self.events.append(
                own(
                    ApprovalResolved(
                        approval_id=replaced,
                        call_id=card.call_id,
                        status="superseded",
                        by="superseded",
                    ),
                    turn_id=turn_id,
                )
            )
        asked = request(card.approval_id, card.call_id, RUN, turn_id)
        worker = asked.model_copy(update={"worker": card.pending.worker})
        self.events.append(own(worker, turn_id=turn_id))

    def _asked(self, call_id: str, turn_id: str) -> None:
        asked = QuestionAsked(
            id=f"ques_{call_id}",
            status="pending",
            run_id=RUN,
            call_id=call_id,
            questions=(),
            asked_at="2026-11-29T12:00:00.000Z",
            expires_at=None,
        )
        self.events.append(own(asked, turn_id=turn_id))
