"""What a machine may do to a run: drive it, kill it, speak on its behalf, change its policy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, get_args

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
    from collections.abc import Callable

    from app.policy.capability import CapabilitySet
    from app.turn.result import PendingQuestion
    from tests.turn.machine.people import Card

SOUND: Final = st.sampled_from([*CANONICAL])
TEXTS: Final = st.one_of(SOUND, SOUND, SOUND, st.sampled_from(MALFORMED))
# Ids and arguments repeat, some arguments are malformed, two tools are nobody's. What lets content
# in and what sends some out come more often, for without both no taint shows.
NAMES: Final = st.sampled_from(
    [*TOOLS, *["inbox", "send", "post"] * 3, *["share", "stamp"] * 2, "nope", HANDOFF]
)
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

READS_MAIL: Final = Reply((("inbox", "{}"),))


def replies(calls: st.SearchStrategy[tuple[str, str]], most: int) -> st.SearchStrategy[Reply]:
    """One reply with up to `most` calls; in every third one the last of them stands twice."""
    batch = st.lists(calls, min_size=1, max_size=most).map(tuple)
    twice = batch.map(lambda calls: (*calls[:-1], *calls[-1:] * 2))
    return st.builds(Reply, st.one_of(batch, batch, twice), FAILS)


def scripts(calls: st.SearchStrategy[tuple[str, str]]) -> st.SearchStrategy[tuple[Reply, ...]]:
    """What a model plays; in some runs it has read what strangers wrote before all else.

    In others it says once more what it said first, so that a decision meets an equal call, or says
    one thing for ever.
    """
    played = st.lists(replies(calls, 4), min_size=1, max_size=4).map(tuple)
    after_mail = played.map(lambda script: (READS_MAIL, *script))
    again = played.map(lambda script: (*script, script[0]))
    insisting = replies(calls, 1).map(lambda reply: (reply,) * 6)
    return st.one_of(played, after_mail, after_mail, again, insisting)


def in_advance(*tools: str) -> st.SearchStrategy[frozenset[Identity]]:
    """At most one tuple about a call of one of these tools, from before the run began."""
    args = st.sampled_from([*CANONICAL.values()])
    identity = st.builds(Identity, st.just("c1"), st.sampled_from(tools), args)
    return st.frozensets(identity, max_size=1)


ALONE: Final = st.builds(
    Kind,
    scripts(ASKS_NOT),
    hatch=st.booleans(),
    unattended=st.sampled_from([False, False, True]),
    checkpoints=st.booleans(),
    forwarded=st.booleans(),
    approved=in_advance("post", "share", "write", "hidden"),
    denied=in_advance("send", "stamp", "tidy"),
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
VERDICTS: Final = st.sampled_from(["approve", "approve", "approve", "edit", "deny", "expire"])
EDITS: Final = st.sampled_from(['{"n":3}', '{"n":1}', "{}", '{"m":[2],"n":4}'])
GRANT: Final = st.sampled_from(get_args(Live))
Standing = tuple[str, Literal["session", "wide session", "ended"] | Live]
STANDING: Final[st.SearchStrategy[Standing]] = st.one_of(
    st.tuples(
        st.sampled_from(["stamp", "send", "share", "post"]),
        st.sampled_from(["session", "wide session", "ended"]),
    ),
    st.tuples(st.sampled_from(["send", "post"]), GRANT),
)


def tightened(how: str, tool: str) -> Callable[[Policy], Policy]:
    """One tool more is vetoed, asks, or gives access."""

    def changed(policy: Policy) -> Policy:
        more: dict[str, frozenset[str]] = {how: getattr(policy, how) | {tool}}
        return replace(policy, **more)  # type: ignore[arg-type]  # `how` names a set of tools

    return changed


def lowered(loses: CapabilitySet) -> Callable[[Policy], Policy]:
    """The ceiling is lowered."""
    return lambda policy: replace(policy, ceiling=policy.ceiling - loses)


def loosened(policy: Policy) -> Policy:
    """Back to what the operators had set first; a connector's word is not taken back."""
    return Policy(feed=policy.feed, declared=policy.declared)


def escalating(policy: Policy) -> Policy:
    """What the sandbox would refuse is asked about."""
    return replace(policy, escalates_sandbox=True)


def declared(reads: bool, harms: bool, is_open: bool) -> Callable[[Policy], Policy]:
    """The connector declares itself anew: whether it reads only, destroys, lets content in."""

    def changed(policy: Policy) -> Policy:
        feed = policy.feed.merged(ToolProfile(policy.feed.origin, reads, harms, is_open))
        return replace(policy, feed=feed, declared=(*policy.declared, (reads, harms, is_open)))

    return changed


CHANGES: Final = st.one_of(
    st.builds(tightened, st.sampled_from(["vetoed", "asking", "grown"]), NAMES.filter(TOOLS.get)),
    st.builds(lowered, st.sampled_from([GIVES_ACCESS, GRANTED])),
    st.just(loosened),
    st.just(escalating),
    st.builds(declared, st.booleans(), st.booleans(), st.booleans()),
)


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
        self.world.recording = data.draw(st.sampled_from(Recording))
        state: Live = data.draw(GRANT)
        self.world.people.grants["send"] = Grant("grnt_0", GRANTED, state)
        for consent in data.draw(st.lists(STANDING, max_size=2)):
            self.consent_for_longer(consent)
        for change in data.draw(st.lists(CHANGES, max_size=2)):
            self.change_the_policy(change)
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
    @rule(which=WHICH, verdict=VERDICTS, edit=EDITS)
    def decide(self, which: int, verdict: str, edit: str) -> None:
        """Answer one card: as it stands, with an edit and a note, not at all in time."""
        people, card = self.world.people, self.card(which)
        match verdict:
            case "edit":
                people.say(card, approves=True, edit=edit, note="mind")
            case "expire":
                people.expire(card)
            case _:
                people.say(card, approves=verdict == "approve")
        self.is_news = True

    @precondition(lambda self: self.unanswered())
    @rule(which=WHICH, declines=st.booleans())
    def answer(self, which: int, declines: bool) -> None:
        question = self.unanswered()[which % len(self.unanswered())]
        turn = self.world.drives[-1].inputs.turn_id
        self.world.people.answer(question, turn, declines=declines)
        self.is_news = True

    @precondition(lambda self: self.goes_on())
    @rule(consent=STANDING)
    def consent_for_longer(self, consent: Standing) -> None:
        """A session approval or a remembered grant of egress, given or ended."""
        people, (tool, what) = self.world.people, consent
        number = len(self.world.events) + len(people.tokens)
        match what:
            case "ended":
                people.sessions.pop(tool, None)
            case "session" | "wide session":
                covered = NOTHING if what == "session" else GRANTED | GIVES_ACCESS
                people.sessions[tool] = SessionApproval(covered, f"session_{tool}_{number}")
            case _:
                people.grants[tool] = Grant(f"grnt_{tool}", GRANTED, what)
        self.is_news = True

    # The operators.

    @precondition(lambda self: self.goes_on())
    @rule(change=CHANGES)
    def change_the_policy(self, change: Callable[[Policy], Policy]) -> None:
        self.world.policy = change(self.world.policy)

    @precondition(lambda self: self.undecided())
    @rule(which=WHICH, how=st.sampled_from(["vetoed", "grown"]))
    def tighten_what_is_asked_about(self, which: int, how: str) -> None:
        """The policy changes while the card lies before somebody."""
        tool = self.card(which).pending.tool_name
        self.world.policy = tightened(how, tool)(self.world.policy)

    @precondition(lambda self: self.world.recording is not Recording.ABSENT)
    @rule(recording=st.sampled_from([Recording.WORKS, Recording.FAILS, Recording.RAISES]))
    def change_the_recorder(self, recording: Recording) -> None:
        """It breaks and comes back; whether there is one is for the deployment to say."""
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
