"""A log that a later release wrote into: what this one does not know, it leaves alone (F47)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest
from structlog.testing import capture_logs

from app.log.envelope import NewEvent
from app.log.payload import Payload

if TYPE_CHECKING:
    from app.log.records import RunRecord
    from tests.support.service.house import House, Person

pytestmark = [pytest.mark.postgres, pytest.mark.fault]


class CallEscrowed(Payload):
    """A fact that a later release states of a run."""

    TYPE: ClassVar[str] = "call.escrowed"

    call_id: str


async def stopped(house: House, alice: Person) -> RunRecord:
    """A run that was decided and is ready, with a fact of a later release in its log."""
    await house.agent()
    run = await house.drive(await alice.run("call mutate {}\n---\nsay done"))
    (asked,) = await house.pending(run)
    async with house.store.database.transaction(house.tenant) as tx:
        await tx.lock(run.conversation_id)
        escrowed = NewEvent(CallEscrowed(call_id=asked.call_id), run_id=run.id)
        await tx.append(run.conversation_id, [escrowed], now=house.clock.now())
    await alice.approve(asked)
    return await house.read(run)


async def test_f47_a_run_with_an_event_nobody_here_knows_is_left_untouched_and_reported(
    house: House,
) -> None:
    """However often it is taken up: more often, even, than a run is recovered."""
    run = await stopped(house, await house.person())
    before = await house.events(run)
    with capture_logs() as logs:
        for _ in range(7):
            assert (await house.drive(run)).status == "queued"
            await house.free(run)
    assert await house.events(run) == before
    assert house.tools.count() == 0
    reported = [one for one in logs if one["event"] == "run.unknown_event"]
    assert [(one["run"], one["type"]) for one in reported] == [(run.id, "call.escrowed")] * 7


async def test_f47_it_disturbs_no_other_run(house: House) -> None:
    """Neither one of another conversation nor, once it is cancelled, the next of its own."""
    alice = await house.person()
    run = await stopped(house, alice)
    await house.drive(run)
    assert (await house.drive(await alice.run("say hello"))).status == "completed"
    assert (await alice.cancel(run)).status == "cancelled"
    await house.free(run)
    after = await alice.run("say hello", conversation_id=run.conversation_id)
    assert (await house.drive(after)).status == "completed"
