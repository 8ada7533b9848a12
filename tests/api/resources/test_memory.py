"""Memory over HTTP: what is remembered of oneself, and forgetting it (service.md 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.memory import ConversationTurn, MemorySettings
from tests.support.api.world import problem
from tests.support.stepped_clock import NOON

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld, Person

pytestmark = pytest.mark.asyncio(loop_scope="session")

WINDOW: dict[str, Any] = {"memory": {"strategy": "truncation"}}
TURN = ConversationTurn(
    user_message="a\0\ud800",
    assistant_response="b",
    at=NOON,
    trust=Trust.QUARANTINED_CONTENT,
    run="run_1",
)
NOTHING = {
    "health": "healthy",
    "summary": "",
    "summary_trust": "unspecified",
    "recent_turns": [],
    "tokens": 0,
    "unfolded_turns": 0,
}


async def remembering(person: Person, *turns: ConversationTurn) -> tuple[str, str]:
    """The conversation of a person whose agent has a window, and where its memory is."""
    await person.agent(**WINDOW)
    talk: str = (await person.run())["conversation_id"]
    memory = person.world.store.memory(MemorySettings(strategy="truncation"), model="script")
    for turn in turns:
        await memory.add_turn(Identity(person.tenant, person.sub, talk), turn)
    return talk, f"/v1/conversations/{talk}/memory"


async def test_what_is_remembered_is_shown_with_its_trust(world: ApiWorld) -> None:
    alice = world.person()
    _, place = await remembering(alice, replace(TURN, turn_id=f"mem_{alice.tenant}"))
    assert (await alice.get(place)).json() == NOTHING | {
        "strategy": "truncation",
        "recent_turns": [
            {
                "id": f"mem_{alice.tenant}",
                "run_id": "run_1",
                "user": "a\0\N{REPLACEMENT CHARACTER}",
                "assistant": "b",
                "trust": "quarantined_content",
                "at": "2026-11-29T12:00:00.000Z",
            }
        ],
        "tokens": 3,
    }


async def test_deleting_forgets_and_the_log_stays(world: ApiWorld) -> None:
    alice = world.person()
    talk, place = await remembering(alice, TURN)
    head = (await alice.get(f"/v1/conversations/{talk}")).json()["head_seq"]
    for _ in range(2):
        assert (await alice.delete(place)).status_code == 204
    assert (await alice.get(place)).json() == NOTHING | {"strategy": "truncation"}
    assert (await alice.get(f"/v1/conversations/{talk}")).json()["head_seq"] == head


async def test_everybody_in_a_conversation_has_a_memory_of_their_own(world: ApiWorld) -> None:
    alice, bob = world.person(), world.person("bob")
    talk, place = await remembering(alice, TURN)
    assert (await alice.patch(f"/v1/conversations/{talk}", {"participants": ["bob"]})).is_success
    assert (await bob.get(place)).json() == NOTHING | {"strategy": "none"}
    assert (await bob.delete(place)).status_code == 204
    assert len((await alice.get(place)).json()["recent_turns"]) == 1


async def test_many_newer_runs_of_another_hide_nobodys_memory(world: ApiWorld) -> None:
    """More than a page of them."""
    alice, bob = world.person(), world.person("bob")
    talk, place = await remembering(alice, TURN)
    assert (await alice.patch(f"/v1/conversations/{talk}", {"participants": ["bob"]})).is_success
    for _ in range(51):
        await bob.run(conversation_id=talk)
    assert len((await alice.get(place)).json()["recent_turns"]) == 1


async def test_strangers_find_no_conversation(world: ApiWorld) -> None:
    alice, bob = world.person(), world.person("bob")
    _, place = await remembering(alice, TURN)
    for answer in (await bob.get(place), await bob.delete(place)):
        problem(answer, 404, "not_found")
    problem(await alice.get("/v1/conversations/conv_none/memory"), 404, "not_found")


async def test_without_an_agent_that_remembers_there_is_nothing_to_show(world: ApiWorld) -> None:
    alice = world.person()
    empty = (await alice.post("/v1/conversations", {})).json()["id"]
    assert (await alice.get(f"/v1/conversations/{empty}/memory")).json()["strategy"] == "none"
    _, place = await remembering(alice, TURN)
    await alice.agent()
    assert (await alice.get(place)).json() == NOTHING | {"strategy": "none"}
    await alice.delete("/v1/agents/helper")
    assert (await alice.get(place)).json() == NOTHING | {"strategy": "none"}
