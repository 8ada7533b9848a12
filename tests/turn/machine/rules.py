"""What a machine may do to a run: drive it, kill it, speak on its behalf, change its policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, get_args

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from app.policy.grants import SessionApproval
from app.policy.profile import Origin, ToolProfile
from tests.support.turn.tools import READ
from tests.turn.machine.drive import Recording
from tests.turn.machine.house import GIVES_ACCESS, TOOLS, Policy
from tests.turn.machine.kinds import ALONE, NAMES, SEARCHES
from tests.turn.machine.law import NOTHING
from tests.turn.machine.people import GRANTED, Grant, Live
from tests.turn.machine.runlog import Death, Moment
from tests.turn.machine.world import World

if TYPE_CHECKING:
    from app.policy.capability import CapabilitySet
    from app.turn.result import PendingQuestion
    from tests.turn.machine.people import Card
    from tests.turn.machine.world import Kind

DEATHS: Final = st.one_of(
    st.builds(Death, st.sampled_from(Moment), st.integers(0, 8)),
    st.builds(Death, st.just(Moment.IN_TOOL), st.integers(0, 2)),
)
RECORDING: Final = (Recording.WORKS, Recording.FAILS, Recording.RAISES)
VERDICTS: Final = st.sampled_from(["approve", "approve", "approve", "edit", "deny", "expire"])
EDITS: Final = st.sampled_from(['{"n":3}', '{"n":1}', "{}", '{"m":[2],"n":4}'])
WIDE: Final = GRANTED | GIVES_ACCESS
Act = Callable[[st.DataObject], None]
GRANTABLE: Final = ("send", "post")
GRANT: Final = st.sampled_from(get_args(Live))
Standing = tuple[str, Literal["session", "wide session", "ended"] | Live]
STANDING: Final[st.SearchStrategy[Standing]] = st.one_of(
    st.tuples(
        st.sampled_from(["stamp", "send", "share", "post"]),
        st.sampled_from(["session", "wide session", "ended"]),
    ),
    st.tuples(st.sampled_from(GRANTABLE), GRANT),
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
    """The connector declares itself anew: whether it reads only, destroys, lets content in.

    It also claims to be a tool of the sandbox, which nobody believes.
    """

    def changed(policy: Policy) -> Policy:
        feed = policy.feed.merged(ToolProfile(Origin.LOCAL_SANDBOX, reads, harms, is_open))
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
        for _ in range(data.draw(st.integers(0, 2), "consents")):
            self.consent(data)
        for _ in range(data.draw(st.integers(0, 2), "changes")):
            self.change_the_policy(data)
        said = [tool for reply in self.world.kind.replies for tool, _ in reply.calls]
        known = [tool for tool in said if tool in TOOLS]
        asked = data.draw(st.sampled_from([None, *[None] * len(known), *known]), "asked about")
        if asked is not None:
            self.world.policy = tightened("asking", asked)(self.world.policy)
        self.is_news = True

    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        """Something happens. Of several rules a life would have some and do without the others.

        Hypothesis leaves rules out at random, and a run that nobody takes up, or nobody decides
        on, shows nothing.
        """
        acts = self.acts()
        acts[data.draw(st.integers(0, len(acts) - 1))](data)

    def acts(self) -> list[Act]:
        """What may happen now, what is likely more often."""
        if self.world.is_over:
            return [self.begin]
        acts: list[Act] = [self.consent, self.change_the_policy, self.change_the_recorder]
        if self.is_news:
            deaths = 6 if self.undone() or self.searches() else 2
            acts += [*[self.drive] * 6, *[self.drive_until_the_process_dies] * deaths]
        if self.undecided():
            acts += [*[self.decide] * 6, *[self.loosen_what_is_asked_about] * 3]
            acts += [self.consent_to_what_is_asked_about] * 3
        if self.open_tools():
            acts += [self.tighten_what_is_open] * 3
        if self.unanswered():
            acts += [self.answer] * 8
        return acts

    # The worker processes.

    def drive(self, data: st.DataObject) -> None:
        """Take the run up; `stale`: give it once more the decisions that are used up."""
        self.world.drive(stale=data.draw(st.booleans(), "stale"))
        self.is_news = self.world.drives[-1].result is None

    def drive_until_the_process_dies(self, data: st.DataObject) -> None:
        """A death that finds nothing to interrupt is a turn like any other."""
        self.world.drive(data.draw(DEATHS, "death"))
        self.is_news = self.world.drives[-1].result is None

    # The people.

    def decide(self, data: st.DataObject) -> None:
        """Answer one card: as it stands, with an edit and a note, not at all in time."""
        people, card = self.world.people, data.draw(self.cards(), "card")
        match verdict := data.draw(VERDICTS, "verdict"):
            case "edit":
                people.say(card, approves=True, edit=data.draw(EDITS, "edit"), note="mind")
            case "expire":
                people.expire(card)
            case _:
                people.say(card, approves=verdict == "approve")
        self.is_news = True

    def answer(self, data: st.DataObject) -> None:
        """Answer one question, or leave it to the model."""
        question = data.draw(st.sampled_from(self.unanswered()), "question")
        turn = self.world.drives[-1].inputs.turn_id
        self.world.people.answer(question, turn, declines=data.draw(st.booleans(), "declines"))
        self.is_news = True

    def consent(self, data: st.DataObject) -> None:
        """A session approval or a remembered grant of egress, given or ended."""
        people, (tool, what) = self.world.people, data.draw(STANDING, "consent")
        match what:
            case "ended":
                people.sessions.pop(tool, None)
            case "session" | "wide session":
                self.approve_for_longer(tool, NOTHING if what == "session" else WIDE)
            case _:
                people.grants[tool] = Grant(f"grnt_{tool}", GRANTED, what)
        self.is_news = True

    def consent_to_what_is_asked_about(self, data: st.DataObject) -> None:
        """A session approval answers an open request, with a grant or alone.

        Meanwhile policy may forbid the tool, and the grant be taken back.
        """
        tool = data.draw(self.cards(), "card").pending.tool_name
        self.approve_for_longer(tool, data.draw(st.sampled_from([NOTHING, WIDE]), "covered"))
        if tool in GRANTABLE and data.draw(st.booleans(), "is granted"):
            self.world.people.grants[tool] = Grant(f"grnt_{tool}", GRANTED, data.draw(GRANT))
        beyond = lowered(self.world.policy.required(tool) - READ)
        changes = [None, tightened("vetoed", tool), beyond]
        if (change := data.draw(st.sampled_from(changes), "change")) is not None:
            self.world.policy = change(self.world.policy)
        self.is_news = True

    def approve_for_longer(self, tool: str, covered: CapabilitySet) -> None:
        number = len(self.world.events) + len(self.world.people.tokens)
        self.world.people.sessions[tool] = SessionApproval(covered, f"session_{tool}_{number}")

    # The operators.

    def change_the_policy(self, data: st.DataObject) -> None:
        self.world.policy = data.draw(CHANGES, "change")(self.world.policy)

    def tighten_what_is_open(self, data: st.DataObject) -> None:
        """The policy changes while a call is asked about, waits, or is lost with its process."""
        tool = data.draw(st.sampled_from(self.open_tools()), "tool")
        how = data.draw(st.sampled_from(["vetoed", "grown"]), "how")
        self.world.policy = tightened(how, tool)(self.world.policy)

    def loosen_what_is_asked_about(self, _: st.DataObject) -> None:
        """The policy goes back while a card lies before somebody, and the run is taken up."""
        self.world.policy = loosened(self.world.policy)
        self.is_news = True

    def change_the_recorder(self, data: st.DataObject) -> None:
        """It breaks and comes back; whether there is one is for the deployment to say."""
        if self.world.recording is not Recording.ABSENT:
            self.world.recording = data.draw(st.sampled_from(RECORDING), "recording")

    # How things are.

    def undecided(self) -> list[Card]:
        """The cards nobody has spoken on."""
        cards = self.world.people.undecided()
        return [card for card in cards if not self.world.is_settled(card.call_id)]

    def undone(self) -> list[Card]:
        """The cards whose decisions have had no effect."""
        cards = self.world.people.cards
        return [card for card in cards if card.said is not None and not self.world.is_used(card)]

    def searches(self) -> bool:
        """Whether the model will call again and again what it was not offered."""
        kind = self.world.kind
        return kind.hatch and kind.replies[: len(SEARCHES)] == SEARCHES

    def cards(self) -> st.SearchStrategy[Card]:
        """One of them."""
        return st.sampled_from(self.undecided())

    def open_tools(self) -> list[str]:
        """The tools of the calls that have no result."""
        calls = self.world.history.calls.values()
        return [call.tool for call in calls if call.tool in TOOLS and not call.results]

    def unanswered(self) -> list[PendingQuestion]:
        """The questions nobody has answered."""
        given = {(one.call_id, one.index) for one in self.world.people.answers}
        asked = self.world.people.questions
        return [one for one in asked if (one.call_id, one.index) not in given]
