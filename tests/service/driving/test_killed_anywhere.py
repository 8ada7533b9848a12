"""A process killed around every event that a worker appends, and another one that goes on.

The real processes of tests/e2e/test_crash_points.py die in the main job. Here a worker dies in
whatever else a run may come to; the points are what the worker of an undisturbed twin appends, so a
new event in a story is a new pair of deaths, and a new type of event needs a story. The whole log
is compared with that of the twin: `twins` says what a death may leave behind in it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from app.log.catalogue import PAYLOADS
from tests.service.agents.test_escape_hatch import FILLING, HIDDEN, MISS
from tests.service.driving.delegating import delegate
from tests.service.driving.playing import TELLER, Point, Story, play, points
from tests.service.driving.twins import is_whole, run_again, told
from tests.service.grants.granting import Holder
from tests.service.questions.questioning import TWO
from tests.support.appenders import BY_REQUESTS, BY_WORKERS
from tests.support.played.memory import KeptMemory, OneMemory
from tests.support.service.house import House

if TYPE_CHECKING:
    from app.log.records import RunRecord
    from app.store.open import Store

pytestmark = [pytest.mark.postgres, pytest.mark.fault, pytest.mark.unmeasured]

# A fact of no run, which a worker's process hears of beside it: runs/test_late_results.py.
BESIDE = {"tool.answered_late"}
# One reads, and one is idempotent.
HARMLESS = {"read", "stamp"}


async def tighten(house: House) -> None:
    """Somebody forbids what was approved."""
    await house.agent(TELLER, approval={"mutate": "veto"})


async def redefine(house: House) -> None:
    """A release comes, whose tools are not those that were shown."""
    house.tools.described = ", now with teeth"


MUTATES = "call mutate {}\n---\nsay so"
CHARGES = 'call charge {"n":1}\n---\nsay so'
ASKS = {"tools": ["ask_question", "mutate"], "approval": {"mutate": "ask"}}
READS = "\n---\n".join(f'call read {{"n":{n}}}' for n in range(6))
CONDENSES = {"memory": {"compaction": {"max_messages": 8, "keep_messages": 2}}, "max_steps": 20}
REWRITES = {"tool": "charge", "action": "rewrite", "set": {"/n": 2}}
INJECTS = {"tool": "charge", "action": "inject", "text": "Mind the budget."}
TOTAL = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
CUT = (Point("text.delta", 1, "after"),)
LOST = (Point("tool.started", 1, "after"),)
STORIES = {
    "thought and failed": Story(
        script="think hm\nsay well\ncall read {}\ncall charge {}\n---\nsay so"
    ),
    "denied": Story(script=MUTATES, agent=ASKS, verdict="deny"),
    "cancelled": Story(script=f"say well\n{MUTATES}", verdict="cancel"),
    "asked": Story(
        script=f"call ask_question {json.dumps({'questions': TWO})}\n{MUTATES}", agent=ASKS
    ),
    "delegated": Story(
        script=f"{delegate('w')}\n---\nsay so", agent={"tools": [], "delegates": [{"agent": "w"}]}
    ),
    "unattended": Story(script=MUTATES, agent=ASKS, is_unattended=True),
    "covered": Story(
        script='call stamp {"n":1}\ncall stamp {"n":2}\n---\nsay so',
        scope="session",
        since="run.resumed",
    ),
    "tightened": Story(script=MUTATES, meanwhile=tighten, since="run.resumed"),
    "redefined": Story(script=MUTATES, meanwhile=redefine, since="run.resumed"),
    "granted": Story(script=f"call fetch {{}}\n---\n{CHARGES}", since="grant.replayed"),
    "rewritten": Story(script=CHARGES, agent={"dispatch_rules": [REWRITES]}),
    "annotated": Story(
        script=CHARGES, agent={"dispatch_rules": [INJECTS]}, since="dispatch.mutated"
    ),
    "missed": Story(
        script=MISS,
        agent={"tools": ["crm:*"], "escape_hatch": True},
        served=FILLING | HIDDEN,
        since="retrieval.missed",
    ),
    "attached": Story(script="say seen", attached=b"paid", since="attachment.resolved"),
    "remembered": Story(
        script="say so", agent={"memory": {"strategy": "truncation"}}, since="message.assistant"
    ),
    "condensed": Story(script=f"{READS}\n---\nsay so", agent=CONDENSES, since="history.compacted"),
    "condensed by another": Story(
        script=f"{READS}\n---\nsay so", agent=CONDENSES, since="history.compacted", deaths=LOST
    ),
    "formed": Story(
        script='call final_result {"total":"3"}\n---\ncall final_result {"total":3}',
        agent={"output_schema": TOTAL},
        since="message.assistant",
    ),
    "broken off": Story(script="say one two three\nfailafter 2 transient\n---\nsay so"),
    "failed": Story(script="call read {}\n---\nfail auth"),
    "closed in vain": Story(
        script="call read {}\n---\nfail auth", agent={"max_steps": 1}, since="step.completed"
    ),
    "spent": Story(
        script="usage 9 1\ncall read {}\n---\nsay so",
        agent={"limits": {"max_tokens": 5}},
        since="step.completed",
    ),
    "cut twice": Story(script="say one two three\n---\nsay so", deaths=CUT),
    "lost twice": Story(script=CHARGES, deaths=LOST),
}


class TellersHouse(House):
    """Whose agent has somebody to delegate to, a tool that fails, a grant and a memory."""

    kept: KeptMemory

    @staticmethod
    async def on(store: Store, tenant: str) -> TellersHouse:
        kept = KeptMemory(window=3)
        house = TellersHouse(store, tenant, memories=OneMemory(kept))
        house.kept = kept
        await house.agent("w", instructions="#script\nsay hm\ncall read {}\n---\nsay 42")
        house.tools.errors["charge"] = RuntimeError("no card")
        await (await Holder.of(house)).grant(agent=TELLER)
        return house

    def effects(self, run: RunRecord) -> Counter[str]:
        """How often each call ran under a key of its own, and the run was remembered."""
        keys = {call.idempotency_key for call in self.tools.calls if run.id in call.idempotency_key}
        remembered = sum(turn.run == run.id for _, turn in self.kept.kept)
        return Counter(key.rpartition(":")[2] for key in keys) + Counter(memory=remembered)


@pytest_asyncio.fixture
async def tellers(store: Store, tenant: str) -> TellersHouse:
    return await TellersHouse.on(store, tenant)


@pytest.mark.parametrize("title", STORIES)
async def test_a_run_killed_anywhere_tells_the_story_of_its_twin(
    tellers: TellersHouse, title: str
) -> None:
    story = STORIES[title]
    twin = await play(tellers, replace(story, deaths=()))
    wanted, effects = told(twin.log), tellers.effects(twin.run)
    for point in points(await play(tellers, story), story.since):
        played = await play(tellers, story, point)
        assert told(played.log) == wanted, point
        assert is_whole(played.log), point
        assert run_again(played.log) <= HARMLESS, point
        # For each death one attempt more, and one for who orders a call once more.
        assert played.run.attempts <= twin.run.attempts + 2 * len((*story.deaths, point)), point
        assert played.run.answer == twin.run.answer, point
        assert tellers.effects(played.run) == effects, point


async def test_every_type_that_a_worker_appends_has_its_deaths(tellers: TellersHouse) -> None:
    told = set[str]()
    for story in STORIES.values():
        told |= {*(await play(tellers, story)).appended}
    assert told - BY_REQUESTS == BY_WORKERS - BESIDE
    assert PAYLOADS.keys() == BY_REQUESTS | BY_WORKERS
