"""Rolling summaries in a real Postgres: whatever fails or dies, each turn is folded once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.memory import Health, MemorySettings
from app.store.memory.folding import Folding, FoldTimes
from app.store.memory.rolling import RollingMemory
from app.store.open import Store
from tests.store.memory.test_plain import said
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

pytestmark = pytest.mark.postgres

SETTINGS = MemorySettings(strategy="rolling_summary")
AGED = "UPDATE memory_state SET claimed_at = now() - interval '61 s' WHERE tenant = $1"


class Notes:
    """A summariser that lists what it was given; it fails, is blank or waits as it is told."""

    model = "notes"

    def __init__(self) -> None:
        self.says: str | Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = asyncio.Event()
        self.folded: list[str] = []

    def of(self, model: str) -> Notes:
        """The same for each model."""
        assert model == "script"
        return self

    async def summarize(self, prior: str, items: Sequence[str], *, identity: Identity) -> str:
        self.asked.set()
        await self.gate.wait()
        if isinstance(self.says, Exception):
            raise self.says
        if self.says is not None:
            return self.says
        new = [item.removeprefix("user: asked ") for item in items if item.startswith("user: ")]
        self.folded += new
        return " ".join((*prior.split(), *new))


@pytest.fixture
def who(tenant: str) -> Identity:
    return Identity(tenant, "alice", f"conv-{tenant}")


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest_asyncio.fixture
async def folding(store: Store, notes: Notes) -> Folding:
    # A look takes whatever waits in the database; what earlier tests left there is not meant.
    await store.everyone.pool.execute("DELETE FROM memory_state")
    return Folding(store.pool, store.everyone, notes.of, FoldTimes(tick_s=3600))


@pytest.fixture
def memory(store: Store, folding: Folding) -> RollingMemory:
    return RollingMemory(store.pool, SETTINGS, folding=folding, model="script")


@asynccontextmanager
async def running(folding: Folding) -> AsyncIterator[None]:
    """Folds beside the block; what is under way at its end is cut off, as by a death."""
    task = asyncio.ensure_future(folding.run())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def add(memory: RollingMemory, who: Identity, *numbers: int) -> None:
    for number in numbers:
        await memory.add_turn(who, said(number))


async def shown(memory: RollingMemory, who: Identity) -> tuple[str, list[str], int]:
    """Summary, window and what is in neither."""
    patch = await memory.get_llm_context(who)
    return patch.summary, [turn.run for turn in patch.recent_turns], patch.unfolded_turns


async def aged(store: Store, who: Identity) -> None:
    """The claim of whoever died has run out."""
    await store.everyone.pool.execute(AGED, who.tenant)


LAST_FOUR = ["run_5", "run_6", "run_7", "run_8"]


async def test_c104_older_turns_become_a_summary(
    memory: RollingMemory, folding: Folding, who: Identity
) -> None:
    """C104: 8 turns: a summary of the first four, health `healthy`, 4 recent turns."""
    async with running(folding):
        await add(memory, who, 1, 2, 3, 4)
        assert (await shown(memory, who))[0] == ""
        await add(memory, who, 5, 6, 7, 8)
        assert await shown(memory, who) == ("1 2 3 4", LAST_FOUR, 0)
        assert await memory.health(who) is Health.HEALTHY
        # Seven octets are one token and one more; turns have two texts of two tokens each.
        assert await memory.estimate_tokens(who) == 2 + 4 * 4


async def test_c103_a_restart_finds_everything(
    dsn: str, store: Store, memory: RollingMemory, who: Identity, notes: Notes
) -> None:
    """C103: turns and queue are back in another process, which then folds them."""
    await add(memory, who, *range(1, 9))
    async with Store.open(dsn, seal=SEAL, process="next", summarizer_of=notes.of) as other:
        again = other.memory(SETTINGS, model="script")
        assert (await again.export_state(who)).turns == (await memory.export_state(who)).turns
        assert other.folding is not None
        await aged(store, who)
        await other.folding.look()
        assert await shown(memory, who) == ("1 2 3 4", LAST_FOUR, 0)


async def test_c105_three_failures_hide_the_summary(
    memory: RollingMemory, folding: Folding, who: Identity, notes: Notes
) -> None:
    """C105: degraded with notices; the window is kept, what is hidden is counted."""
    async with running(folding):
        await add(memory, who, *range(1, 6))
        assert (await shown(memory, who))[0] == "1"
        notes.says = ValueError("what the user said")
        with capture_logs() as logs:
            await add(memory, who, 6)
            assert await shown(memory, who) == ("1", ["run_3", "run_4", "run_5", "run_6"], 1)
            for _ in range(2):
                await folding.look()
    changes = [
        (entry["before"], entry["after"])
        for entry in logs
        if entry["event"] == "memory.health_changed"
    ]
    assert changes == [("healthy", "retry"), ("retry", "degraded")]
    assert "what the user said" not in str(logs)
    assert await shown(memory, who) == ("", ["run_3", "run_4", "run_5", "run_6"], 2)


async def test_c106_and_c107_a_queue_is_bounded_and_drains_in_order(
    memory: RollingMemory, folding: Folding, who: Identity, notes: Notes
) -> None:
    """C106, C107: a 17th range drops the oldest; then one range a tick, until it is healthy."""
    notes.says = ""
    async with running(folding):
        await add(memory, who, 1, 2, 3, 4, 5)
        await memory.get_llm_context(who)
        for _ in range(2):
            await folding.look()
        assert await memory.health(who) is Health.DEGRADED
        with capture_logs() as logs:
            await add(memory, who, *range(6, 22))
        assert [entry["event"] for entry in logs] == ["memory.recovery_dropped"]
        notes.says = None
        for left in range(15, -1, -1):
            await folding.look()
            assert len((await memory.export_state(who)).pending) == left
            health = await memory.health(who)
            assert health is (Health.RECOVERING if left else Health.HEALTHY)
    assert notes.folded == [str(number) for number in range(2, 18)]


async def test_c110_a_slow_summariser_holds_up_no_turn(
    store: Store, memory: RollingMemory, folding: Folding, who: Identity, notes: Notes
) -> None:
    """C110: `add_turn` returns; a read waits for the fold, or says what is unfolded."""
    notes.gate.clear()
    hasty = RollingMemory(store.pool, SETTINGS, folding=folding, model="script", wait_s=0)
    async with running(folding):
        await add(memory, who, 1, 2, 3, 4, 5)
        await notes.asked.wait()
        assert await shown(hasty, who) == ("", ["run_2", "run_3", "run_4", "run_5"], 1)
        patient = asyncio.ensure_future(shown(memory, who))
        notes.gate.set()
        assert await patient == ("1", ["run_2", "run_3", "run_4", "run_5"], 0)


async def test_c111_a_death_between_turn_and_summary_loses_nothing(
    store: Store, memory: RollingMemory, folding: Folding, who: Identity, notes: Notes
) -> None:
    """C111: the claim runs out, and a worker folds the range, once."""
    notes.gate.clear()
    async with running(folding):
        await add(memory, who, 1, 2, 3, 4, 5)
        await notes.asked.wait()
    notes.gate.set()
    await folding.look()
    assert notes.folded == []  # The dead one's claim still holds.
    await aged(store, who)
    await asyncio.gather(folding.look(), Folding(store.pool, store.everyone, notes.of).look())
    assert notes.folded == ["1"]
    assert await shown(memory, who) == ("1", ["run_2", "run_3", "run_4", "run_5"], 0)


async def test_a_claim_that_was_taken_over_writes_nothing(
    store: Store, memory: RollingMemory, folding: Folding, who: Identity, notes: Notes
) -> None:
    notes.gate.clear()
    async with running(folding):
        await add(memory, who, 1, 2, 3, 4, 5)
        await notes.asked.wait()
        await aged(store, who)
        other = Notes()
        await Folding(store.pool, store.everyone, other.of).look()
        notes.says = "written by one who has no claim"
        notes.gate.set()
        await folding.look()
        assert (await shown(memory, who))[0] == "1"
        await memory.flush(who)
        assert await shown(memory, who) == ("", [], 0)


async def test_c112_turns_of_two_writers_are_folded_once(
    dsn: str, store: Store, memory: RollingMemory, folding: Folding, who: Identity, notes: Notes
) -> None:
    """C112: two processes add to one session at once."""
    async with (
        Store.open(dsn, seal=SEAL, process="second", summarizer_of=notes.of) as second,
        running(folding),
    ):
        twin = second.memory(SETTINGS, model="script")
        await asyncio.gather(
            *(
                each.add_turn(who, said(n + k))
                for n in range(0, 12, 2)
                for k, each in enumerate((memory, twin))
            )
        )
        summary, window, unfolded = await shown(memory, who)
    assert (len(window), unfolded, len(notes.folded), len(set(notes.folded))) == (4, 0, 8, 8)
    assert summary.split() == notes.folded


async def test_c113_blank_text_is_a_failure(
    memory: RollingMemory, folding: Folding, who: Identity, notes: Notes
) -> None:
    """C113: it counts, and the prior summary stays."""
    async with running(folding):
        await add(memory, who, *range(1, 6))
        await memory.get_llm_context(who)
        notes.says = " \n"
        await add(memory, who, 6)
        assert (await shown(memory, who))[0] == "1"
        assert await memory.health(who) is Health.RETRY


async def test_a_summary_without_end_is_cut_at_8_kib(
    memory: RollingMemory, folding: Folding, who: Identity, notes: Notes
) -> None:
    notes.says = "é" * 10_000
    async with running(folding):
        await add(memory, who, *range(1, 6))
        assert (await shown(memory, who))[0] == "é" * 4096


async def test_c114_a_tainted_turn_taints_its_summary(
    memory: RollingMemory, folding: Folding, who: Identity
) -> None:
    """C114: it stays so when clean turns are folded after it."""
    async with running(folding):
        await memory.add_turn(who, said(1, trust=Trust.QUARANTINED_CONTENT))
        await add(memory, who, *range(2, 8))
        patch = await memory.get_llm_context(who)
    assert (patch.summary, patch.summary_trust) == ("1 2 3", Trust.QUARANTINED_CONTENT)


async def test_c118_a_flush_forgets_summary_and_queue(
    memory: RollingMemory, folding: Folding, who: Identity, notes: Notes
) -> None:
    """C118: nothing is left, not what a fold under way would write either."""
    notes.gate.clear()
    async with running(folding):
        await add(memory, who, *range(1, 7))
        await memory.flush(who)
        notes.gate.set()
        await folding.look()
        assert await shown(memory, who) == ("", [], 0)
        await add(memory, who, 9)
        assert await shown(memory, who) == ("", ["run_9"], 0)


async def test_a_state_is_put_back_with_summary_and_queue(
    memory: RollingMemory, folding: Folding, who: Identity
) -> None:
    async with running(folding):
        await add(memory, who, *range(1, 7))
        await memory.get_llm_context(who)
    await add(memory, who, 7)
    state, there = await memory.export_state(who), replace(who, session="there")
    await memory.import_state(there, state)
    copy = await memory.export_state(there)
    assert (copy.summary, copy.folded_through, copy.pending) == ("1 2", 2, state.pending)
    await folding.look()
    assert (await shown(memory, there))[0] == "1 2 3"


async def test_a_session_that_cannot_be_read_keeps_no_other_waiting(
    store: Store, memory: RollingMemory, who: Identity, notes: Notes
) -> None:
    unwell = replace(who, session="unwell")
    await add(memory, unwell, *range(1, 6))
    await store.everyone.pool.execute(
        "UPDATE memory_state SET health = 'unwell' WHERE tenant = $1", who.tenant
    )
    await add(memory, who, *range(1, 6))
    await aged(store, who)
    folding = Folding(store.pool, store.everyone, notes.of, FoldTimes(tick_s=0.01))
    with capture_logs() as logs:
        async with running(folding):
            await notes.asked.wait()
            assert (await shown(memory, who))[0] == "1"
    assert ("memory.look_failed", "ValueError") in [
        (entry["event"], entry.get("kind")) for entry in logs
    ]
