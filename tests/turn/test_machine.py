"""A generated life of a run, checked against the rules after every step (turn.md 11).

Scripts, verdicts, edits, expiries, deaths and cancels come in any order. The machine keeps what the
people said and what really ran; everything else it reads in the journal, as an auditor would.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from app.turn.result import EndedBy
from tests.turn.machine_rules import (
    check_arguments,
    check_consents,
    check_never_run,
    check_requests,
    check_results,
    check_taint,
    check_waiting,
)
from tests.turn.machine_world import TOOLS, Death, MachineWorld, Moment

if TYPE_CHECKING:
    from app.turn.result import PendingApproval, TurnResult

# (tool, argument text): ids repeat, arguments repeat, some are malformed, one tool is unknown.
CALLS = st.tuples(
    st.sampled_from([*(tool.name for tool in TOOLS), "nope"]),
    st.sampled_from(['{"n":1}', '{"n":1.0}', '{"n":2}', "{", "{}"]),
)
REPLIES = st.lists(st.lists(CALLS, min_size=1, max_size=4), max_size=4)
DEATHS = st.builds(Death, st.sampled_from(Moment), st.integers(0, 6))
WHICH = st.integers(0, 3)


class RunMachine(RuleBasedStateMachine):
    """One run. A turn is driven when somebody has decided, or when a worker was lost."""

    @initialize(replies=REPLIES, hatch=st.booleans())
    def begin(self, replies: list[list[tuple[str, str]]], hatch: bool) -> None:
        self.world = MachineWorld(replies, hatch=hatch)
        self.cards: list[PendingApproval] = []
        self.is_over = False

    @precondition(lambda self: self.is_over)
    @rule(replies=REPLIES, hatch=st.booleans())
    def begin_anew(self, replies: list[list[tuple[str, str]]], hatch: bool) -> None:
        self.begin(replies, hatch)

    @precondition(lambda self: self.is_due())
    @rule()
    def drive(self) -> None:
        self.took(asyncio.run(self.world.driven()))

    @precondition(lambda self: self.is_due())
    @rule(death=DEATHS)
    def drive_until_the_worker_dies(self, death: Death) -> None:
        """A death that finds nothing to interrupt is a turn like any other."""
        result = asyncio.run(self.world.driven_until(death))
        if result is not None:
            self.took(result)
        elif death.moment is Moment.CANCEL:
            self.is_over = True
        else:
            self.cards = []

    @precondition(lambda self: self.undecided())
    @rule(which=WHICH)
    def approve(self, which: int) -> None:
        self.world.approve(self.card(which))

    @precondition(lambda self: self.undecided())
    @rule(which=WHICH, edit=st.sampled_from(['{"n":3}', '{"n":1}']))
    def approve_with_an_edit(self, which: int, edit: str) -> None:
        self.world.approve(self.card(which), edit=edit)

    @precondition(lambda self: self.undecided())
    @rule(which=WHICH, expired=st.booleans())
    def deny(self, which: int, expired: bool) -> None:
        self.world.deny(self.card(which), expired=expired)

    @precondition(lambda self: not self.is_over)
    @rule()
    def allow_the_stamp_for_the_session(self) -> None:
        self.world.allow_for_session("stamp")

    @invariant()
    def every_rule_holds(self) -> None:
        """F28: what has started by now was decided before, if it is a call that must be."""
        check_results(self.world)
        check_requests(self.world)
        check_consents(self.world)
        check_arguments(self.world)
        check_taint(self.world)
        check_never_run(self.world)

    def is_due(self) -> bool:
        """Whether a worker would take the run up: nobody is waited for, or somebody has spoken."""
        return not self.is_over and (not self.cards or len(self.undecided()) < len(self.cards))

    def undecided(self) -> list[PendingApproval]:
        """The cards nobody has spoken on."""
        return [card for card in self.cards if not self.world.has_decided(card)]

    def card(self, which: int) -> PendingApproval:
        open_cards = self.undecided()
        return open_cards[which % len(open_cards)]

    def took(self, result: TurnResult) -> None:
        """Take a turn's result, and hold it to what the people said before (I3)."""
        answered = [card for card in self.cards if self.world.has_decided(card)]
        self.cards = list(result.pending_approvals)
        self.is_over = result.ended_by is not EndedBy.PAUSE
        if self.cards:
            check_waiting(self.world)
        for card in answered:
            assert self.world.is_settled(card.call_id)


TestRunMachine = RunMachine.TestCase
TestRunMachine.settings = settings(
    max_examples=max(500, settings().max_examples), stateful_step_count=14, deadline=None
)
