"""Memory over HTTP: turns of one's own by meaning (service.md 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.memory import ConversationTurn, MemorySettings
from tests.support.api.world import api_world, pointers, problem
from tests.support.played.embedder import PlayedEmbedder
from tests.support.stepped_clock import NOON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.store.open import Store
    from tests.support.api.world import ApiWorld, Person

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def embedder(tenant: str) -> PlayedEmbedder:
    return PlayedEmbedder(f"api-{tenant}", ("deploy", "cake"))


@pytest_asyncio.fixture(loop_scope="session")
async def recalling(
    shared_store: Store, tenant: str, embedder: PlayedEmbedder
) -> AsyncIterator[ApiWorld]:
    store = await shared_store.recalling(embedder)
    async with api_world(store) as opened:
        yield replace(opened, tenant=f"api-recall-{tenant}")


async def remembering(person: Person, *said: str, **members: Any) -> tuple[str, str]:
    """A new conversation of a person with these turns, and where it is searched."""
    await person.agent(memory={"retrieval": "semantic"} | members)
    talk: str = (await person.run())["conversation_id"]
    memory = person.world.store.memory(MemorySettings(is_semantic=True), model="script")
    for text in said:
        turn = ConversationTurn(
            user_message=text,
            assistant_response="noted",
            at=NOON,
            trust=Trust.QUARANTINED_CONTENT,
            turn_id=f"mem_{talk}_{text}",
            run="run_1" if text == said[0] else "",
        )
        await memory.add_turn(Identity(person.tenant, person.sub, talk), turn)
    return talk, f"/v1/conversations/{talk}/memory/search"


async def test_turns_are_found_by_meaning(recalling: ApiWorld) -> None:
    alice = recalling.person()
    talk, place = await remembering(alice, "deploy", "cake")
    found = (await alice.get(f"{place}?q=deploy&top_k=1")).json()
    assert found.pop("items") == [
        {
            "score": 1.0,
            "conversation_id": talk,
            "turn": {
                "id": f"mem_{talk}_deploy",
                "run_id": "run_1",
                "user": "deploy",
                "assistant": "noted",
                "trust": "quarantined_content",
                "at": "2026-11-29T12:00:00.000Z",
            },
        }
    ]
    assert found == {"top_k": 1, "unindexed": 0}
    assert (await alice.get(f"{place}?q=deploy")).json()["top_k"] == 5


async def test_other_conversations_are_searched_where_the_agent_recalls_from_them(
    recalling: ApiWorld,
) -> None:
    alice, bob = recalling.person(), recalling.person("bob")
    await remembering(bob, "deploy")
    there, _ = await remembering(alice, "deploy")
    _, place = await remembering(alice, scope="session")
    assert (await alice.get(f"{place}?q=deploy")).json()["items"] == []
    _, place = await remembering(alice, scope="user")
    items = (await alice.get(f"{place}?q=deploy")).json()["items"]
    assert [hit["conversation_id"] for hit in items] == [there]


async def test_without_recall_the_search_is_refused(recalling: ApiWorld) -> None:
    alice = recalling.person()
    _, place = await remembering(alice, "deploy")
    await alice.agent(memory={"strategy": "truncation"})
    problem(await alice.get(f"{place}?q=deploy"), 422, "memory.semantic_disabled")


async def test_who_may_search_for_what(recalling: ApiWorld) -> None:
    alice, bob = recalling.person(), recalling.person("bob")
    _, place = await remembering(alice, "deploy")
    problem(await bob.get(f"{place}?q=deploy"), 404, "not_found")
    blank = problem(await alice.get(f"{place}?q=%20"), 422, "request.invalid")
    assert pointers(blank) == ["/q"]
    for query in ("", "?q=a&top_k=51", "?q=a&top_k=-1"):
        problem(await alice.get(f"{place}{query}"), 422, "request.invalid")


async def test_an_embedder_that_fails_is_asked_again_later(
    recalling: ApiWorld, embedder: PlayedEmbedder
) -> None:
    alice = recalling.person()
    _, place = await remembering(alice, "deploy")
    embedder.is_broken = True
    refused = await alice.get(f"{place}?q=deploy")
    problem(refused, 503, "memory.embedding_failed")
    assert refused.headers["retry-after"] == "2"


async def test_turns_of_another_embedder_ask_for_the_command_that_embeds_them(
    recalling: ApiWorld, embedder: PlayedEmbedder, tenant: str
) -> None:
    alice = recalling.person()
    _, place = await remembering(alice, "deploy")
    other = PlayedEmbedder(f"other-{tenant}", ("deploy", "cake"))
    async with api_world(await recalling.store.recalling(other)) as opened:
        later = replace(opened, tenant=recalling.tenant).person()
        refused = problem(await later.get(f"{place}?q=deploy"), 409, "memory.embedder_mismatch")
    assert refused["detail"] == (
        f"turns were embedded by 'api-{tenant}' and not by 'other-{tenant}': "
        "run turngate rebuild memory"
    )


async def test_c116_without_vectors_the_agent_is_refused(world: ApiWorld) -> None:
    """C116: the agent is refused."""
    body = {"model": "script", "memory": {"retrieval": "semantic"}}
    refused = problem(await world.person().put("/v1/agents/a", body), 422, "agent.invalid")
    assert pointers(refused) == ["/memory/retrieval"]
