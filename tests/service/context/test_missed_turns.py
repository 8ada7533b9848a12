"""Turns that could not be stored when their runs ended are stored from the log afterwards."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from app.policy.taint import Trust
from app.runctx.memory import ConversationTurn, MemorySettings
from app.service.context.missed_turns import remember_now
from app.store.memory.missed_turns import missed_turns
from tests.service.context.remembering import WINDOW, RememberingHouse
from tests.service.context.test_remembering import FailingMemory
from tests.support.service.house import House

if TYPE_CHECKING:
    from app.log.records import RunRecord
    from app.store.open import Store

pytestmark = pytest.mark.postgres


@pytest.fixture
def house(store: Store, tenant: str) -> RememberingHouse:
    return RememberingHouse.on(store, tenant, FailingMemory(RuntimeError("broken")))


async def ended(house: RememberingHouse, program: str, **agent: Any) -> RunRecord:
    alice = await house.person()
    await house.agent(**(agent or WINDOW))
    return await house.drive(await alice.run(program))


async def window(house: RememberingHouse, run: RunRecord) -> list[ConversationTurn]:
    memory = house.store.memory(MemorySettings(strategy="truncation"), model="script")
    patch = await memory.get_llm_context(house.identity(run))
    return [replace(turn, turn_id="") for turn in patch.recent_turns]


async def remembered(house: RememberingHouse, run: RunRecord) -> bool:
    async with house.store.database.session(house.tenant) as session:
        return await remember_now(session, house.store, run.id)


async def missed(house: RememberingHouse, *, after: timedelta = timedelta()) -> list[str]:
    since = house.clock.now() - timedelta(days=1) + after
    found = await missed_turns(house.store.everyone, since=since)
    return [run for tenant, run in found if tenant == house.tenant]


@pytest.mark.parametrize(
    ("program", "trust"),
    [
        ("say hello", Trust.TRUSTED_USER),
        ("call fetch {}\n---\nsay hello", Trust.QUARANTINED_CONTENT),
    ],
    ids=["clean", "tainted"],
)
async def test_a_turn_is_stored_as_it_would_have_been_and_once(
    house: RememberingHouse, program: str, trust: Trust
) -> None:
    run = await ended(house, program)
    [written] = [e for e in await house.events(run) if e.type == "memory.written"]
    assert await missed(house) == [run.id]
    assert await remembered(house, run)
    assert await window(house, run) == [
        ConversationTurn(
            user_message=program,
            assistant_response="hello",
            at=written.at,
            trust=trust,
            run=run.id,
            session=run.conversation_id,
        )
    ]
    assert await missed(house) == []
    assert not await remembered(house, run)


async def test_what_is_past_its_keeping_is_not_stored_again(house: RememberingHouse) -> None:
    run = await ended(house, "say hello")
    assert await missed(house) == [run.id]
    assert await missed(house, after=timedelta(days=2)) == []


async def test_a_run_that_failed_or_remembers_nothing_has_no_turn(house: RememberingHouse) -> None:
    failed = await ended(house, "fail auth")
    plain = await ended(house, "say hello", memory={"strategy": "none"})
    assert await missed(house) == []
    assert not await remembered(house, failed)
    assert not await remembered(house, replace(failed, id="run_none"))
    assert plain.status == "completed"


async def test_what_its_owner_forgot_is_not_stored_again(house: RememberingHouse) -> None:
    alice = await house.person()
    await house.agent(**WINDOW)
    run = await house.drive(await alice.run("say hello"))
    async with house.store.database.transaction(house.tenant) as tx:
        await tx.forget_memory(house.identity(run))
    assert await missed(house) == []
    later = await alice.run("say again", conversation_id=run.conversation_id)
    await house.drive(later)
    assert await missed(house) == [later.id]


async def test_it_comes_where_it_should_have_been(store: Store, house: RememberingHouse) -> None:
    alice = await house.person()
    await house.agent(**WINDOW)
    missing = await house.drive(await alice.run("say one"))
    await house.clock.let_pass(60)
    healthy = House(store, house.tenant, house.clock, house.tools, memories=store)
    await healthy.drive(await alice.run("say two", conversation_id=missing.conversation_id))
    assert [turn.user_message for turn in await window(house, missing)] == ["say two"]
    assert await remembered(house, missing)
    assert [turn.user_message for turn in await window(house, missing)] == ["say one", "say two"]
