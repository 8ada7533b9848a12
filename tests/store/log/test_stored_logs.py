"""Whole logs: what an export of them proves, and what only the database can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg
import pytest

from app.store.log.stored_logs import StoredLogs
from app.trust.chain import GENESIS, verify_chain
from tests.support.database.postgres import Talk, completed, started

if TYPE_CHECKING:
    from app.store.log.stored_logs import StoredEvent
    from app.store.open import Store

pytestmark = pytest.mark.postgres


async def read(store: Store, conversation_id: str) -> list[StoredEvent]:
    async with StoredLogs(store.everyone).opened(conversation_id) as log:
        assert log is not None
        return [event async for event in log.events()]


@pytest.fixture
async def talk(store: Store, tenant: str) -> Talk:
    """A conversation with one finished run, four events and their seal."""
    made = await Talk(store, tenant).open(title="Tea\0time")
    run_id = await made.ask()
    lease = await made.claim()
    await made.write(lease, started(run_id))
    await made.finish(lease, completed(run_id))
    return made


async def test_a_log_is_read_from_its_first_event_to_its_head(store: Store, talk: Talk) -> None:
    async with StoredLogs(store.everyone).opened(talk.id) as log:
        assert log is not None
        events = [event.record async for event in log.events()]
        assert [event.seq for event in events] == [1, 2, 3, 4, 5]
        assert verify_chain(events) is None
        assert log.head == (5, events[-1].hash)
        assert events[0].prev_hash == GENESIS
        assert log.tenant == talk.tenant


async def test_the_columns_of_a_sound_log_say_what_its_events_say(store: Store, talk: Talk) -> None:
    """Text that Postgres cannot hold is stored in another form, and is still the same."""
    assert [event.wrong_columns for event in await read(store, talk.id)] == [()] * 5


async def test_a_log_that_is_not_there_is_none(store: Store) -> None:
    async with StoredLogs(store.everyone).opened("conv_of_nobody") as log:
        assert log is None


async def test_every_log_is_named(store: Store, talk: Talk) -> None:
    assert talk.id in await StoredLogs(store.everyone).names()


@dataclass(frozen=True)
class Tampering:
    id: str
    change: str
    found: tuple[str, ...]


TAMPERINGS = [
    Tampering("type", "type = 'run.failed'", ("type",)),
    Tampering("trust", "trust = 2", ("trust",)),
    Tampering("run", "run_id = 'run_other'", ("run_id",)),
    Tampering("turn", "turn_id = 'turn_other'", ("turn_id",)),
    Tampering("step", "step = 7", ("step",)),
    Tampering("time", "at = at + interval '1 hour'", ("at",)),
    Tampering("copy", """data = data || '{"principal": "mallory"}'""", ("data",)),
    Tampering("tenant", "tenant = 'another'", ("tenant",)),
    Tampering("body", r"body = '\x7b'", ("body",)),
    Tampering(
        "everything but the hash",
        """type = 'run.failed', data = '{}', body = '{"data": {}, "type": "run.failed"}'""",
        ("at", "run_id", "trust"),
    ),
]


@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda case: case.id)
async def test_a_column_that_says_something_else_is_named(
    store: Store, talk: Talk, dsn: str, tampering: Tampering
) -> None:
    statement = f"UPDATE events SET {tampering.change}"  # noqa: S608 - the cases are our own
    await tamper(dsn, statement, talk.id, 2)
    wrong = [event.wrong_columns for event in await read(store, talk.id)]
    assert [tuple(sorted(columns)) for columns in wrong] == [(), tampering.found, (), (), ()]


async def tamper(dsn: str, statement: str, conversation_id: str, seq: int) -> None:
    """What only the database's owner can do, and not without switching the guard off."""
    owner = await asyncpg.connect(dsn)
    try:
        async with owner.transaction():
            await owner.execute("SET LOCAL session_replication_role = replica")
            where = " WHERE conversation_id = $1 AND seq = $2"
            assert await owner.execute(statement + where, conversation_id, seq) == "UPDATE 1"
    finally:
        await owner.close()
