"""Summaries in a conversation whose agents replay different histories (run-context.md 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.service.context.remembering import content
from tests.support.service.house import House

if TYPE_CHECKING:
    from app.store.open import Store

pytestmark = pytest.mark.postgres

COMPACTION = {"max_messages": 8, "keep_messages": 2}
SHARED: dict[str, Any] = {"memory": {"compaction": COMPACTION}, "max_steps": 100}
ALONE: dict[str, Any] = {
    "memory": {"history": "run", "compaction": COMPACTION},
    "max_steps": 100,
}
READING = "\n---\n".join(['call read {"n":1}'] * 5) + "\n---\nsay done at last"


async def test_the_summary_of_a_run_alone_stands_for_nothing_of_the_others(
    store: Store, tenant: str
) -> None:
    """What was said before it is there, summarised or not, for a run that replays them all."""
    house = House(store, tenant)
    alice = await house.person()
    house.summarizers.answers = ["Read so far.", "Alone.", "All of it."]
    house.script.program = READING
    await house.agent(**SHARED)
    first = await house.drive(await alice.run("the task"))
    await house.agent(**ALONE)
    await house.drive(await alice.run("mine alone", conversation_id=first.conversation_id))
    await house.agent(**SHARED)
    house.script.program = "say two"
    await house.drive(await alice.run("all", conversation_id=first.conversation_id))
    prior, items = house.summarizers.asked[-1]
    assert prior.startswith("Read so far.")
    assert items[0] == "user: the task"
    assert "user: mine alone" in items
    [block] = house.script.requests[-1].context
    assert content(block)["summary"] == "All of it."
