"""Every migration on a database that is in use, with the oddest rows the schema allows (F83)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest
from alembic.script import ScriptDirectory

from alembic import command
from app.log import runs
from app.log.envelope import NewEvent
from app.store.log.rebuild import rebuild
from app.store.open import Store
from app.store.schema.migrations import alembic_config, migrate
from tests.store.schema.test_migrations import empty
from tests.support.database.postgres import NOON, Talk, new_id
from tests.support.log.seals import SEAL
from tests.support.service.house import House

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.records import RunRecord

__all__ = ["empty"]

pytestmark = pytest.mark.postgres

ODD = ["", "\0", "'; DROP TABLE events; --", "\ud7ff\U0001f980 \u202e", "x" * 70_000, "\\u0000"]
JOB = 'call mutate {"to":"a"}\n---\nsay sent'
REVISIONS = [
    each.revision
    for each in ScriptDirectory.from_config(alembic_config("postgresql:///none")).walk_revisions()
]


def test_f83_every_revision_leads_to_this_release_with_its_data(empty: str) -> None:
    """Back to each one, newest first, and up again: nothing of the log or its projections moves."""
    waiting = asyncio.run(filled(empty))
    before = asyncio.run(logs(empty))
    assert len(before) > 20
    for revision in [*REVISIONS[1:], *reversed(REVISIONS)]:
        command.downgrade(alembic_config(empty), revision)
        command.upgrade(alembic_config(empty), "head")
        command.check(alembic_config(empty))
        assert asyncio.run(logs(empty)) == before
    assert asyncio.run(rebuild(empty)) == []
    assert asyncio.run(goes_on(empty, waiting)) == "completed"


async def filled(dsn: str) -> RunRecord:
    """Runs that ended and never began, texts that nobody expects, and a run that waits."""
    await migrate(dsn)
    async with Store.open(dsn, seal=SEAL, process="old") as store:
        for number, text in enumerate(ODD):
            tenant = f"{text[:200]}{number}"
            talk = await Talk(store, tenant).open(title=text, participants=[text or " "])
            await talk.ask(new_id("run"), metadata={"odd": text, "deep": [[[]], {"": None}]})
            changed = runs.ConversationUpdated(changed={"title": text}, by="alice")
            await talk.request(NewEvent(changed), now=NOON)
        house = House(store, "acme")
        alice = await house.person()
        await house.agent(approval={"mutate": "ask"})
        ended, waiting = [await house.drive(await alice.run(JOB)) for _ in range(2)]
        await alice.approve((await house.pending(ended))[0])
        await house.drive(ended)
    return waiting


async def logs(dsn: str) -> Sequence[tuple[object, ...]]:
    """Every event as it is stored."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "SELECT conversation_id, seq, body, private, hash FROM events ORDER BY 1, 2"
        )
    finally:
        await connection.close()
    return [tuple(row) for row in rows]


async def goes_on(dsn: str, waiting: RunRecord) -> str:
    """The status of the run that waited, once its person has decided."""
    async with Store.open(dsn, seal=SEAL, process="new") as store:
        house = House(store, "acme")
        alice = await house.person()
        await alice.approve((await house.pending(waiting))[0])
        return (await house.drive(waiting)).status
