"""A run that is cancelled or fails once its turn is stored: nothing of it is remembered (C156)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.service.deaths import doomed, killed, other
from tests.support.played.embedder import PlayedEmbedder
from tests.support.service.house import House

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from app.ids import Identity
    from app.runctx.memory import ConversationTurn, MemorySettings, TurnWritten
    from app.runctx.ports import MemoryStore
    from app.store.open import Store

pytestmark = [pytest.mark.postgres, pytest.mark.vectors, pytest.mark.fault]

AGENT: dict[str, Any] = {"memory": {"strategy": "truncation", "retrieval": "semantic"}}
KEPT = """
SELECT (SELECT count(*) FROM memory_turns WHERE tenant = $1)
    + (SELECT count(*) FROM memory_vectors WHERE tenant = $1)"""


class Interrupted:
    """The store's memory, before or after whose write something else happens."""

    def __init__(self, memories: Store, *, before: bool) -> None:
        self._memories = memories
        self._before = before
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    def memory(self, settings: MemorySettings, *, model: str) -> MemoryStore:
        memory = self._memories.memory(settings, model=model)
        write = memory.add_turn

        async def add_turn(identity: Identity, turn: ConversationTurn) -> TurnWritten:
            happens, self.meanwhile = self.meanwhile, None
            if happens and self._before:
                await happens()
            written = await write(identity, turn)
            if happens and not self._before:
                await happens()
            return written

        memory.add_turn = add_turn  # type: ignore[method-assign]  # the one method of interest
        return memory


@pytest_asyncio.fixture(
    loop_scope="module", params=[True, False], ids=["before the write", "after the write"]
)
async def house(store: Store, tenant: str, request: pytest.FixtureRequest) -> House:
    recalling = await store.recalling(PlayedEmbedder(f"cancelled-{tenant}", ("tea", "hello")))
    return House(recalling, tenant, memories=Interrupted(recalling, before=request.param))


async def test_c156_a_cancel_beside_the_write_leaves_nothing_remembered(house: House) -> None:
    """C156: given any other end, then no memory write; a later run is remembered as ever."""
    alice = await house.person()
    await house.agent(**AGENT)
    run = await alice.run("say hello")
    assert isinstance(house.memories, Interrupted)
    house.memories.meanwhile = lambda: alice.cancel(run)
    await house.drive(run)
    events = await house.types(run)
    assert (events[-1], "memory.written" in events) == ("run.cancelled", False)
    assert await house.store.everyone.pool.fetchval(KEPT, house.tenant) == 0
    await house.drive(await alice.run("say tea", conversation_id=run.conversation_id))
    assert await house.store.everyone.pool.fetchval(KEPT, house.tenant) == 2


async def test_c156_a_run_that_fails_after_a_death_behind_the_write_is_forgotten(
    store: Store, tenant: str
) -> None:
    """C156: the answer that was remembered is nobody's once recovery is given up."""
    recalling = await store.recalling(PlayedEmbedder(f"failed-{tenant}", ("hello",)))
    house = House(recalling, tenant, memories=recalling)
    alice = await house.person()
    await house.agent(**AGENT)
    run = await alice.run("say hello")
    for _ in range(7):
        await killed(doomed(house, "run.completed", "before"), run)
    assert await house.store.everyone.pool.fetchval(KEPT, tenant) == 2
    run = await other(house).drive(run)
    assert run.error is not None
    assert run.error["code"] == "recovery_exhausted"
    assert await house.store.everyone.pool.fetchval(KEPT, tenant) == 0
