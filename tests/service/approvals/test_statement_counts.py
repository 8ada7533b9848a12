"""How often the database is asked between a posted decision and the start of its tool.

A statement more is a trip more that a person waits for, so the list is written down here. It is
that of an agent whose tools taint cannot hold back; for others, remembered grants are read as well.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from app.service.driving.supervisor import Supervisor
from app.store.open import Store
from tests.support.database.statements import Statements
from tests.support.log.seals import SEAL
from tests.support.service.house import House

if TYPE_CHECKING:
    from app.log.records import RunRecord

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(60)]

NAMES = {
    "BEGIN": "begin",
    "COMMIT": "commit",
    "LEFT JOIN approver_keys k ON k.tenant = $1": "lock the approval",
    "INSERT INTO events": "append",
    "INSERT INTO tgq.pgqueuer AS job": "enqueue",
    "lease_until < clock_timestamp())\n    RETURNING": "claim",
    "FROM events WHERE tenant = $1": "read the events",
    "LEFT JOIN session_approvals": "read the consents",
}
# Beside it: hints to other processes, a queue that looks whether somebody else has a wake, and what
# a connection learns once.
BESIDE = (
    *("pg_notify", "FROM tgq.pgqueuer", "UPDATE tgq.pgqueuer"),
    *("pg_backend_pid()", "set_config('jit'", "typeinfo_tree"),
)


def on_the_way(told: Statements) -> list[str]:
    """The statements that the start of the tool waits for."""
    told.texts = [text for text in told.texts if not any(beside in text for beside in BESIDE)]
    return told.named(NAMES)


async def paused(house: House, run: RunRecord) -> None:
    """Wait until somebody is asked, and the worker has let go."""
    async with asyncio.timeout(30):
        while (await house.read(run)).status != "paused":
            continue


async def test_a_decision_starts_its_tool_after_nine_statements(
    dsn: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Statements(monkeypatch)
    async with Store.open(dsn, seal=SEAL, process="counted") as store:
        house = House(store, tenant)
        await house.be_alone()
        alice = await house.person()
        await house.agent(tools=["stamp"])
        supervisor = Supervisor(
            queue=store.queue,
            driver=house.driver,
            expiry=house.expiry(),
            clock=house.clock,
            concurrency=8,
            drain_s=20.0,
        )
        async with asyncio.TaskGroup() as owner:
            owner.create_task(supervisor.run())
            run = await alice.run("call stamp {}\n---\nsay done")
            await paused(house, run)
            (asked,) = await house.pending(run)
            jws = alice.sign(await alice.payload(asked.id, decision="approve"))
            go_on = house.tools.hold("stamp")
            told.restart()
            await alice.post(asked.id, "approve", jws)
            await house.tools.began.wait()
            *before, one, other, last = on_the_way(told)
            assert before == ["begin", "lock the approval", "append", "enqueue", "commit", "claim"]
            # These two are asked for at once.
            assert sorted((one, other)) == ["read the consents", "read the events"]
            assert last == "append"
            go_on.set()
            assert (await house.runs.settled(alice.caller, run.id, 30)).status == "completed"
            supervisor.stop()
