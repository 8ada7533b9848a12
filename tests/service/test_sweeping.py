"""An approved call that nobody carries out is driven again, and counted (F37)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from app.service.supervisor import Supervisor

if TYPE_CHECKING:
    from tests.support.house import House

pytestmark = pytest.mark.postgres


async def test_f37_a_decision_whose_wake_was_lost_is_carried_out_and_counted(
    house: House,
) -> None:
    await house.be_alone()
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run("call mutate {}\n---\nsay done"))
    await alice.approve((await house.pending(run))[0])
    # The queue forgets what the decision told it.
    await house.be_alone()
    swept: list[None] = []
    supervisor = Supervisor(
        queue=house.store.queue,
        driver=house.driver,
        approvals=house.approvals,
        clock=house.clock,
        concurrency=8,
        drain_s=20.0,
    )
    supervisor.on_swept(lambda: swept.append(None))
    async with asyncio.TaskGroup() as owner:
        owner.create_task(supervisor.run())
        run = await house.runs.settled(alice.caller, run.id, 30)
        supervisor.stop()
    assert (run.status, house.tools.count(), len(swept)) == ("completed", 1, 1)
