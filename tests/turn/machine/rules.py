"""What a machine may do to a run: drive it, kill it, speak on its behalf, change its policy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, get_args

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from app.policy.grants import SessionApproval
from app.policy.profile import ToolProfile
from app.turn.options import Identity
from tests.turn.machine.drive import Recording
from tests.turn.machine.house import GIVES_ACCESS, TOOLS, Policy
from tests.turn.machine.law import NOTHING
from tests.turn.machine.people import GRANTED, Grant, Live
from tests.turn.machine.runlog import Death, Moment
from tests.turn.machine.script import (
    ASK,
    BAD_DELEGATIONS,
    BAD_QUESTIONS,
    CANONICAL,
    DELEGATE,
    DELEGATIONS,
    GOOD_QUESTIONS,
    HANDOFF,
    MALFORMED,
    Reply,
)
from tests.turn.machine.world import Kind, World

if TYPE_CHECKING:
    from app.turn.result import PendingQuestion
    from tests.turn.machine.people import Card

SOUND: Final = st.sampled_from([*CANONICAL])
TEXTS: Final = st.one_of(SOUND, SOUND, SOUND, st.sampled_from(MALFORMED))
# Ids and arguments repeat, some arguments are malformed, two tools are nobody's. What lets content
# in and what sends some out come more often, for without both no taint shows.
NAMES: Final = st.sampled_from([*TOOLS, *["inbox", "send", "post"] * 3, "stamp", "nope", HANDOFF])
PLAIN: Final = st.tuples(NAMES, TEXTS)
ASKING: Final = st.tuples(
    st.just(ASK), st.sampled_from([*GOOD_QUESTIONS * 3, *BAD_QUESTIONS, MALFORMED[0]])
)
DELEGATING: Final = st.tuples(
    st.just(DELEGATE), st.sampled_from([*DELEGATIONS * 3, *BAD_DELEGATIONS, MALFORMED[0]])
)
ASKS_NOT: Final = st.one_of(PLAIN, PLAIN, PLAIN, ASKING)
# The dial of a reply fails as often: after three retries the turn gives up.
FAILS: Final = st.sampled_from([0] * 12 + [1, 3, 4])


def replies(calls: st.SearchStrategy[tuple[str, str]], most: int) -> st.SearchStrategy[Reply]:
    """One reply with up to `most` calls."""
    batch = st.lists(calls, min_size=1, max_size=most).map(tuple)
    return st.builds(Reply, batch, FAILS)


def scripts(calls: st.SearchStrategy[tuple[str, str]]) -> st.SearchStrategy[tuple[Reply, ...]]:
    """What a model plays."""
    return st.lists(replies(calls, 4), min_size=1, max_size=4).map(tuple)


IDENTITIES: Final = st.builds(
    Identity, st.just("c1"), st.sampled_from(["post", "share", "write", "hidden"]), SOUND
)
ADVANCE: Final = st.frozensets(
    st.builds(lambda one: replace(one, args_json=CANONICAL[one.args_json]), IDENTITIES), max_size=1
)
ALONE: Final = st.builds(
    Kind,
    scripts(ASKS_NOT),
    hatch=st.booleans(),
    unattended=st.sampled_from([False, False, True]),
    checkpoints=st.booleans(),
    forwarded=st.booleans(),
    approved=ADVANCE,
)
STAFFED: Final = st.builds(
    Kind,
    scripts(st.one_of(PLAIN, DELEGATING, DELEGATING)),
    scripts(PLAIN),
    unattended=st.sampled_from([False, False, False, True]),
    checkpoints=st.booleans(),
)
DEATHS: Final = st.one_of(
    st.builds(Death, st.sampled_from(Moment), st.integers(0, 8)),
    st.builds(Death, st.just(Moment.IN_TOOL), st.integers(0, 2)),
)
WHICH: Final = st.integers(0, 3)
TOOL_NAMES: Final = st.sampled_from([*TOOLS])
EDITS: Final = st.sampled_from(['{"n":3}', '{"n":1}', "{}", '{"m":[2],"n":4}'])
GRANT: Final = st.sampled_from(get_args(Live))
COVERED: Final = st.sampled_from([NOTHING, GRANTED])


class RunRules(RuleBasedStateMachine):
    """One run, and everybody who has to do with it."""

    kinds: st.SearchStrategy[Kind] = ALONE

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, tuple[int, int, int, int]] = {}
        self.world: World
        self.is_news = True

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.world = World(data.draw(self.kinds))
        state: Live = data.draw(GRANT)
        self.world.people.grants["send"] = Grant("grnt_0", GRANTED, state)
        self.is_news = True

    @precondition(lambda self: self.world.is_over)
    @rule(data=st.data())
    def begin_anew(self, data: st.DataObject) -> None:
        self.begin(data)

    # The worker processes.

    @precondition(lambda self: self.is_due())
    @rule(stale=st.booleans())
    def drive(self, stale: bool) -> None:
        """Take the run up; `stale`: give it decisions once more that are used up."""
        self.world.drive(stale=stale)
        self.is_news = self.world.drives[-1].result is None

    @precondition(lambda self: self.is_due())
    @rule(death=DEATHS)
    def drive_until_the_process_dies(self, death: Death) -> None:
        """A death that finds nothing to interrupt is a turn like any other."""
        self.world.drive(death)
        self.is_news = self.world.drives[-1].result is None

    # The people.

    @precondition(lambda self: self.undecided())
    @rule(which=WHICH, edit=st.one_of(st.just(""), EDITS))
    def approve(self, which: int, edit: str) -> None:
        self.world.people.say(
            self.card(which), approves=True, edit=edit, note="mind" if edit else ""
        )
        self.is_news = True

    @precondition(lambda self: self.undecided())
    @rule(which=WHICH)
    def deny(self, which: int) -> None:
        self.world.people.say(self.card(which), approves=False)
        self.is_news = True

    @precondition(lambda self: self.undecided())
    @rule(which=WHICH)
    def let_expire(self, which: int) -> None:
        self.world.people.expire(self.card(which))
        self.is_news = True

    @precondition(lambda self: self.unanswered())
    @rule(which=WHICH, declines=st.booleans())
    def answer(self, which: int, declines: bool) -> None:
        question = self.unanswered()[which % len(self.unanswered())]
        turn = self.world.drives[-1].inputs.turn_id
        self.world.people.answer(question, turn, declines=declines)
        self.is_news = True

    @precondition(lambda self: self.goes_on())
    @rule(tool=st.sampled_from(["stamp", "send", "share", "post"]), covered=COVERED)
    def allow_for_the_session(self, tool: str, covered: frozenset[object]) -> None:
        number = len(self.world.events) + len(self.world.people.tokens)
        approval = SessionApproval(GRANTED if covered else NOTHING, f"session_{tool}_{number}")
        self.world.people.sessions[tool] = approval
        self.is_news = True

    @precondition(lambda self: self.goes_on() and self.world.people.sessions)
    @rule(which=WHICH)
    def end_a_session_approval(self, which: int) -> None:
        sessions = self.world.people.sessions
        del sessions[sorted(sessions)[which % len(sessions)]]

    @precondition(lambda self: self.goes_on())
    @rule(
        tool=st.sampled_from(["send", "send", "post"]),
        state=st.sampled_from(["live", "live", "revoked", "revoked since", "expired"]),
    )
    def remember_or_revoke(self, tool: str, state: Live) -> None:
        """A grant of egress for one tool: given, or ended before or in the middle of a turn."""
        self.world.people.grants[tool] = Grant(f"grnt_{tool}", GRANTED, state)
        self.is_news = True

    # The operators.

    @precondition(lambda self: self.goes_on())
    @rule(tool=TOOL_NAMES, how=st.sampled_from(["vetoed", "asking", "grown"]))
    def tighten(self, tool: str, how: str) -> None:
        policy = self.world.policy
        changed: dict[str, frozenset[str]] = {how: getattr(policy, how) | {tool}}
        self.world.policy = replace(policy, **changed)  # type: ignore[arg-type]  # `how` names a set

    @precondition(lambda self: self.goes_on())
    @rule(loses=st.sampled_from([GIVES_ACCESS, GRANTED]))
    def lower_the_ceiling(self, loses: frozenset[object]) -> None:
        policy = self.world.policy
        self.world.policy = replace(policy, ceiling=policy.ceiling - loses)

    @precondition(lambda self: self.goes_on())
    @rule()
    def loosen(self) -> None:
        """Back to what the operators had set first; a connector's word is not taken back."""
        policy = self.world.policy
        self.world.policy = Policy(feed=policy.feed, declared=policy.declared)

    @precondition(lambda self: self.goes_on())
    @rule()
    def escalate_what_the_sandbox_denies(self) -> None:
        self.world.policy = replace(self.world.policy, escalates_sandbox=True)

    @precondition(lambda self: self.goes_on())
    @rule(reads=st.booleans(), harms=st.booleans(), is_open=st.booleans())
    def declare_the_feed_again(self, reads: bool, harms: bool, is_open: bool) -> None:
        policy = self.world.policy
        feed = policy.feed.merged(ToolProfile(policy.feed.origin, reads, harms, is_open))
        declared = (*policy.declared, (reads, harms, is_open))
        self.world.policy = replace(policy, feed=feed, declared=declared)

    @precondition(lambda self: self.goes_on())
    @rule(recording=st.sampled_from(Recording))
    def change_the_recorder(self, recording: Recording) -> None:
        self.world.recording = recording

    # How things are.

    def goes_on(self) -> bool:
        """Whether the run has not ended."""
        return not self.world.is_over

    def is_due(self) -> bool:
        """Whether a worker process would take the run up: somebody has spoken, or one was lost."""
        return self.goes_on() and self.is_news

    def undecided(self) -> list[Card]:
        """The cards nobody has spoken on."""
        cards = self.world.people.undecided() if self.goes_on() else []
        return [card for card in cards if not self.world.is_settled(card.call_id)]

    def unanswered(self) -> list[PendingQuestion]:
        """The questions nobody has answered."""
        given = {(one.call_id, one.index) for one in self.world.people.answers}
        asked = self.world.people.questions if self.goes_on() else []
        return [one for one in asked if (one.call_id, one.index) not in given]

    def card(self, which: int) -> Card:
        return self.undecided()[which % len(self.undecided())]
