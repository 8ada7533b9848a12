"""Workers that ask, people who decide in any order, and processes that die: nobody waits in vain.

A pause must hang on something that is open: a card whose call is settled, or a worker that has
ended, would keep its run waiting for ever.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from typing_extensions import override

from app.log.calls import DelegateCompleted, DelegateStarted
from app.turn.result import EndedBy
from tests.support.turn_provider import called, reply, said
from tests.support.turn_tools import EGRESS, MemoryTool
from tests.support.turn_workers import worker
from tests.turn.machine_world import Death, MachineWorld, Moment

if TYPE_CHECKING:
    from app.turn.result import PausedWorker, PendingApproval, TurnResult

# What the run's model emits: it delegates to two workers that ask, and asks for a call itself.
CALLS = st.sampled_from(
    [
        ("__delegate_to", '{"target_agent_id":"a","task":"go"}'),
        ("__delegate_to", '{"target_agent_id":"b","task":"go"}'),
        ("post", '{"n":1}'),
        ("read", "{}"),
    ]
)
REPLIES = st.lists(st.lists(CALLS, min_size=1, max_size=3), min_size=1, max_size=3)
DEATHS = st.builds(Death, st.sampled_from(Moment), st.integers(0, 8))
WHICH = st.integers(0, 3)
# More than any life of a run asks a worker's model for.
PLENTY = 40


class StaffedWorld(MachineWorld):
    """A run with two workers, each of which posts once per task and needs to ask for it."""

    def __init__(self, replies: list[list[tuple[str, str]]]) -> None:
        super().__init__(replies, hatch=False)
        once = [reply(called("c1", "post", {})), reply(said("posted"))]
        post = MemoryTool("post", required=EGRESS, asks=True)
        self.workers = [worker(name, once * PLENTY, post) for name in ("a", "b")]

    @override
    async def turn(self, **options: Any) -> TurnResult:
        descriptors = [one.descriptor for one in self.workers]
        return await super().turn(delegate_descriptors=descriptors, **options)


class WaitingMachine(RuleBasedStateMachine):
    """One run; what it waits for is looked at whenever it waits."""

    @initialize(replies=REPLIES)
    def begin(self, replies: list[list[tuple[str, str]]]) -> None:
        self.world = StaffedWorld(replies)
        self.cards: tuple[PendingApproval, ...] = ()
        self.paused: tuple[PausedWorker, ...] = ()
        self.is_over = False

    @precondition(lambda self: self.is_over)
    @rule(replies=REPLIES)
    def begin_anew(self, replies: list[list[tuple[str, str]]]) -> None:
        self.begin(replies)

    @precondition(lambda self: not self.is_over)
    @rule()
    def drive(self) -> None:
        self.took(asyncio.run(self.world.driven()))

    @precondition(lambda self: not self.is_over)
    @rule(death=DEATHS)
    def drive_until_the_worker_dies(self, death: Death) -> None:
        """A cancelled run waits for nothing; any other is driven again, from its log."""
        if (result := asyncio.run(self.world.driven_until(death))) is not None:
            self.took(result)
            return
        self.cards, self.paused = (), ()
        self.is_over = death.moment is Moment.CANCEL

    @precondition(lambda self: self.undecided())
    @rule(which=WHICH, approves=st.booleans())
    def decide(self, which: int, approves: bool) -> None:
        card = self.undecided()[which % len(self.undecided())]
        if approves:
            self.world.approve(card)
        else:
            self.world.deny(card, expired=False)

    @invariant()
    def a_pause_waits_for_what_is_open(self) -> None:
        """F44"""
        begun = [one.call_id for one in self.world.journal.of(DelegateStarted)]
        ended = [one.call_id for one in self.world.journal.of(DelegateCompleted)]
        assert len(begun) == len(set(begun))
        assert set(ended) <= set(begun)
        for card in self.cards:
            assert not self.world.is_settled(card.call_id)
            assert card.worker is None or card.worker.call_id in begun
        waited_for = {card.worker.call_id for card in self.cards if card.worker is not None}
        assert {one.worker.call_id for one in self.paused} == waited_for
        assert not waited_for & set(ended)
        assert not any(self.world.is_settled(call_id) for call_id in waited_for)

    def undecided(self) -> list[PendingApproval]:
        """The cards nobody has spoken on."""
        return [card for card in self.cards if not self.world.has_decided(card)]

    def took(self, result: TurnResult) -> None:
        """What the turn came to: a pause with something to wait for, or an end."""
        self.cards, self.paused = result.pending_approvals, result.paused_workers
        self.is_over = result.ended_by is not EndedBy.PAUSE
        assert self.is_over or self.cards


TestWaitingMachine = WaitingMachine.TestCase
TestWaitingMachine.settings = settings(
    max_examples=max(150, settings().max_examples), stateful_step_count=12, deadline=None
)
