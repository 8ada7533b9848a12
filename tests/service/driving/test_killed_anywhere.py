"""A process killed around every event that a worker appends, and another one that goes on.

The real processes of tests/e2e/test_crash_points.py die in the main job. Here a worker dies in
whatever else a run may come to; the points are read from the log of an undisturbed twin, so a
new event in a story is a new pair of deaths. Seals are part of the append that they close, and
what a death leaves behind (`step.discarded`) is appended by whoever takes over.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.service.deaths import doomed, other
from tests.service.driving.delegating import delegate, is_paired
from tests.service.questions.questioning import TWO, option
from tests.support.house import PEOPLE
from tests.support.killed import Killed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.log.records import RunRecord
    from tests.support.house import House
    from tests.support.killed import Moment

pytestmark = [pytest.mark.postgres, pytest.mark.fault]

# A request appends these, and a worker all others.
BY_REQUESTS = {
    *("run.created", "message.user", "approval.decided", "approval.resolved"),
    *("question.answered", "decision.refused"),
}
ASKS = {"tools": ["ask_question", "mutate"], "approval": {"mutate": "ask"}}
REWRITES = {"tool": "charge", "action": "rewrite", "set": {"/n": 2}}
READS = "\n---\n".join(f'call read {{"n":{n}}}' for n in range(6))


@dataclass(frozen=True)
class Story:
    """A run of one agent; whatever asks is approved, denied or answered.

    What comes before the first event `since` is told by other stories.
    """

    script: str
    agent: dict[str, Any] = field(default_factory=dict)
    verdict: str = "approve"
    is_unattended: bool = False
    since: str = "run.created"


STORIES = {
    "thought and failed": Story("think hm\nsay well\ncall read {}\ncall charge {}\n---\nsay so"),
    "denied": Story("call mutate {}\n---\nsay so", ASKS, verdict="deny"),
    "asked": Story(
        f"call ask_question {json.dumps({'questions': TWO})}\ncall mutate {{}}\n---\nsay so", ASKS
    ),
    "delegated": Story(
        f"{delegate('w')}\n---\nsay so", {"tools": [], "delegates": [{"agent": "w"}]}
    ),
    "unattended": Story("call mutate {}\n---\nsay so", ASKS, is_unattended=True),
    "rewritten": Story('call charge {"n":1}\n---\nsay so', {"dispatch_rules": [REWRITES]}),
    "condensed": Story(
        f"{READS}\n---\nsay so",
        {"memory": {"compaction": {"max_messages": 8, "keep_messages": 2}}, "max_steps": 20},
        since="history.compacted",
    ),
    "broken off": Story("say one two three\nfailafter 2 transient\n---\nsay so"),
    "failed": Story("call read {}\n---\nfail auth"),
}
TOLD = {
    *("run.started", "context.assembled", "step.started", "reasoning.delta", "text.delta"),
    *("message.assistant", "call.gated", "run.checkpointed", "tool.started", "tool.completed"),
    *("tool.failed", "tool.settled", "step.completed", "run.completed", "approval.requested"),
    *("run.paused", "run.resumed", "question.asked", "delegate.started", "delegate.completed"),
    *("call.denied_unattended", "dispatch.mutated", "history.compacted", "run.failed"),
}


@dataclass(frozen=True)
class Point:
    """The `nth` event of a type, counted over the whole run."""

    event: str
    nth: int
    moment: Moment


def points(types: Iterable[str], since: str) -> Iterable[Point]:
    seen = Counter[str]()
    for event in types:
        seen[event] += 1
        if seen[since] and event not in BY_REQUESTS:
            yield from (Point(event, seen[event], moment) for moment in ("before", "after"))


async def play(house: House, story: Story, point: Point | None = None) -> RunRecord:
    """The run from its beginning to its end; a worker dies at the point."""
    alice = await house.person(scopes=PEOPLE | {"triggers:write"})
    run = await alice.run(story.script, agent="teller", unattended=story.is_unattended)
    worker = house if point is None else doomed(house, point.event, point.moment, point.nth)
    while not run.is_ended:
        try:
            run = await worker.drive(run)
        except Killed:
            await house.free(run)
            worker, point = other(house), None
            run = await house.read(run)
        await settle(house, run, story)
    assert point is None, "nobody died"
    return run


async def settle(house: House, run: RunRecord, story: Story) -> None:
    """Do what the run waits for; a call of unknown outcome is ordered once more."""
    alice = await house.person()
    for asked in await house.pending(run):
        again = asked.card["risk"]["outcome_unknown"]
        await alice.decide(asked, "approve" if again else story.verdict)
    for question in await house.questions_of(run):
        if question.status == "pending":
            await alice.answer(question, option(0, 1), option(1, 0))


async def effects(house: House, run: RunRecord) -> Counter[str]:
    """How often each call with an effect ran under a key of its own."""
    mine = {call.idempotency_key for call in house.tools.calls if run.id in call.idempotency_key}
    return Counter(key.rpartition(":")[2] for key in mine)


@pytest_asyncio.fixture
async def house(house: House) -> House:
    """A house with somebody to delegate to, and a tool that fails."""
    await house.agent("w", instructions="#script\nsay hm\ncall read {}\n---\nsay 42")
    house.tools.errors["charge"] = RuntimeError("no card")
    return house


@pytest.mark.parametrize("title", STORIES)
async def test_a_run_killed_anywhere_comes_to_the_end_of_its_twin(house: House, title: str) -> None:
    story = STORIES[title]
    await house.agent("teller", **story.agent)
    twin = await play(house, story)
    for point in points(await house.types(twin), story.since):
        run = await play(house, story, point)
        assert (run.status, run.answer) == (twin.status, twin.answer), point
        assert await is_paired(house, run), point
        assert await effects(house, run) == await effects(house, twin), point


async def test_the_stories_tell_whatever_a_worker_appends(house: House) -> None:
    told = set[str]()
    for story in STORIES.values():
        await house.agent("teller", **story.agent)
        told |= {*await house.types(await play(house, story))}
    assert told - BY_REQUESTS == TOLD
