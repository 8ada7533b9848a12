"""Sessions that wait to be folded: all at one tick, so many at once, fair to every tenant."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.memory import Health, MemorySettings, MemoryState, SpilledRange
from app.store.memory.folding import RANGES_AT_ONCE, SESSIONS_AT_ONCE, Folding, FoldTimes
from app.store.memory.rolling import WAIT_S, RollingMemory
from tests.store.memory.test_plain import said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.store.open import Store

pytestmark = pytest.mark.postgres

SETTINGS = MemorySettings(strategy="rolling_summary")
STATE = MemoryState(
    strategy="rolling_summary",
    turns=[said(number) for number in range(1, 7)],
    summary="before",
    summary_trust=Trust.TRUSTED_USER,
    health=Health.DEGRADED,
    pending=(SpilledRange(1, 1), SpilledRange(2, 2)),
)


class Gated:
    """A summariser that waits for its gate; knows whom it was asked for and who is inside."""

    model = "gated"

    def __init__(self, *slow: str) -> None:
        self.gate = asyncio.Event()
        self.slow = slow
        self.asked: list[Identity] = []
        self.inside = self.most = 0
        self.full = asyncio.Event()

    async def summarize(self, prior: str, items: Sequence[str], *, identity: Identity) -> str:
        self.asked.append(identity)
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside == SESSIONS_AT_ONCE:
            self.full.set()
        if not self.slow or identity.session in self.slow:
            await self.gate.wait()
        self.inside -= 1
        return "so far"


AGED = "UPDATE memory_state SET claimed_at = now() - interval '61 s' WHERE tenant = $1"


async def until_asked(gated: Gated, who: Identity) -> None:
    """Returns once the summariser has the session's turns, and waits."""
    async with asyncio.timeout(20):
        while who not in gated.asked:  # noqa: ASYNC110 - nobody tells that they are asked
            await asyncio.sleep(0)


def folded_by(store: Store, gated: Gated, **times: float) -> Folding:
    wanted = FoldTimes(**{"tick_s": 3600, **times})
    return Folding(store.pool, store.everyone, lambda _: gated, wanted)


async def backlog(store: Store, folding: Folding, tenant: str, *sessions: str) -> RollingMemory:
    """Sessions of one tenant with two ranges each, which a worker is to look at one by one."""
    memory = RollingMemory(store.pool, SETTINGS, folding=folding, model="script", wait_s=0)
    for session in sessions:
        await memory.import_state(Identity(tenant, "alice", f"{tenant}-{session}"), STATE)
    return memory


@pytest.fixture
async def alone(store: Store) -> None:
    """A look takes whatever waits in the database; what earlier tests left there is not meant."""
    await store.everyone.pool.execute("DELETE FROM memory_state")


@pytest.mark.usefixtures("alone")
async def test_c107_one_tick_takes_one_range_of_every_session_that_waits(
    store: Store, tenant: str
) -> None:
    """However many there are: a session is never left to a later tick for the sake of others."""
    gated = Gated()
    gated.gate.set()
    folding = folded_by(store, gated)
    names = [f"conv-{number}" for number in range(40)]
    memory = await backlog(store, folding, tenant, *names)
    everybody = [Identity(tenant, "alice", f"{tenant}-{name}") for name in names]
    for left in (1, 0):
        gated.asked.clear()
        await folding.look()
        assert sorted(one.session for one in gated.asked) == sorted(x.session for x in everybody)
        states = [await memory.export_state(one) for one in everybody]
        assert {len(state.pending) for state in states} == {left}
    assert {await memory.health(one) for one in everybody} == {Health.HEALTHY}
    assert gated.most <= SESSIONS_AT_ONCE == 16


@pytest.mark.usefixtures("alone")
async def test_no_tenant_waits_for_all_sessions_of_another(store: Store, tenant: str) -> None:
    gated = Gated()
    folding = folded_by(store, gated)
    await backlog(store, folding, tenant, *(f"conv-{number}" for number in range(40)))
    await backlog(store, folding, f"{tenant}-late", "one")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(folding.look())
        await gated.full.wait()
        assert f"{tenant}-late" in {one.tenant for one in gated.asked}
        assert len(gated.asked) == SESSIONS_AT_ONCE
        gated.gate.set()
    assert len(gated.asked) == 41


@pytest.mark.usefixtures("alone")
async def test_a_slow_session_holds_up_no_tick(store: Store, tenant: str) -> None:
    """The second range of a quick session is folded while the slow one's first still is not."""
    gated = Gated(f"{tenant}-slow")
    folding = folded_by(store, gated, tick_s=0.01)
    memory = await backlog(store, folding, tenant, "slow", "quick")
    quick = Identity(tenant, "alice", f"{tenant}-quick")
    running = asyncio.ensure_future(folding.run())
    async with asyncio.timeout(30):
        while await memory.health(quick) is not Health.HEALTHY:
            continue
    assert gated.inside == 1
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()


@pytest.mark.usefixtures("alone")
async def test_a_look_that_is_cancelled_leaves_its_places_to_the_next(
    store: Store, tenant: str
) -> None:
    gated = Gated()
    folding = folded_by(store, gated)
    await backlog(store, folding, tenant, *(f"conv-{number}" for number in range(40)))
    looking = asyncio.ensure_future(folding.look())
    await gated.full.wait()
    looking.cancel()
    await asyncio.wait([looking])
    assert looking.cancelled()
    gated.gate.set()
    await folding.look()
    # Those that were cut off are claimed still.
    assert len(gated.asked) == 40


@pytest.mark.usefixtures("alone")
async def test_a_summariser_that_takes_too_long_is_a_failure(store: Store, tenant: str) -> None:
    """run-context.md 5.2 rule 3: the prior summary stays, the range is the first still."""
    folding = folded_by(store, Gated(), call_s=0.05)
    memory = await backlog(store, folding, tenant)
    alice = Identity(tenant, "alice", f"conv-{tenant}")
    await memory.import_state(alice, replace(STATE, health=Health.HEALTHY))
    with capture_logs() as logs:
        await folding.look()
    state = await memory.export_state(alice)
    assert (state.health, state.failures, state.summary) == (Health.RETRY, 1, "before")
    assert [(one.first, one.attempts) for one in state.pending] == [(1, 1), (2, 0)]
    assert ("memory.summary_failed", "TimeoutError") in [
        (line["event"], line.get("kind")) for line in logs
    ]


@pytest.mark.usefixtures("alone")
async def test_one_claim_after_another_folds_eight_ranges_and_leaves_the_rest(
    store: Store, tenant: str
) -> None:
    """run-context.md 5.2 rule 2."""
    gated = Gated()
    gated.gate.set()
    folding = folded_by(store, gated)
    memory = await backlog(store, folding, tenant)
    alice = Identity(tenant, "alice", f"conv-{tenant}")
    turns = [said(number) for number in range(1, 15)]
    ranges = tuple(SpilledRange(number, number) for number in range(1, 11))
    state = replace(STATE, turns=turns, health=Health.HEALTHY, pending=ranges)
    await memory.import_state(alice, state)
    await folding.look()
    assert len(gated.asked) == 8
    assert [one.first for one in (await memory.export_state(alice)).pending] == [9, 10]


def test_the_times_are_those_of_the_specification() -> None:
    """run-context.md 5.2 rules 1, 2 and 4: a claim, a call, a tick, a wait, and ranges in a row."""
    times = FoldTimes()
    assert (times.claim_s, times.call_s, times.tick_s, WAIT_S) == (60.0, 20.0, 10.0, 5.0)
    assert RANGES_AT_ONCE == 8


async def test_whoever_comes_too_late_folds_no_later_range_as_its_own(
    store: Store, tenant: str
) -> None:
    """C111: another took the claim over and folded; now the next range waits."""
    late, other = Gated(), Gated()
    memory = await backlog(store, folded_by(store, late), tenant, "a")
    who = Identity(tenant, "alice", f"{tenant}-a")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(folded_by(store, late).look())
        await until_asked(late, who)
        await store.everyone.pool.execute(AGED, tenant)
        other.gate.set()
        await folded_by(store, other).look()
        late.gate.set()
    assert (await memory.export_state(who)).pending == [SpilledRange(2, 2)]


async def test_a_range_that_is_dropped_while_it_is_folded_takes_no_other_s_place(
    store: Store, tenant: str
) -> None:
    """C106: with room for two ranges, a third drops the one that somebody is at."""
    late = Gated()
    await backlog(store, folded_by(store, late), tenant, "a")
    who = Identity(tenant, "alice", f"{tenant}-a")
    folding, narrow = folded_by(store, late), replace(SETTINGS, recovery_backlog_max=2)
    memory = RollingMemory(store.pool, narrow, folding=folding, model="script", wait_s=0)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(folding.look())
        await until_asked(late, who)
        await memory.add_turn(who, said(7))
        late.gate.set()
    left = await memory.export_state(who)
    assert (left.summary, left.folded_through) == ("before", 1)
    assert left.pending == [SpilledRange(2, 2), SpilledRange(3, 3)]
