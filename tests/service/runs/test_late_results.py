"""Results that come when their calls have one already: a fact of the log, and no more (F33)."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from app.log.queries import LogScope
from app.service.runs.late_results import MAX_AT_ONCE, LateResults
from app.tools.executors.executor import ScopedExecutor
from app.tools.mcp.connections import McpConnections
from app.turn.clock import LoopClock
from app.turn.ports import ToolOutcome
from tests.service.deaths import other
from tests.support.api.killed_requests import DeadlyDatabase, Point
from tests.support.log.killed import Killed
from tests.support.loopback import deaf_server
from tests.support.loopback.deaf_server import deafened
from tests.support.loopback.mcp_server import ToolServer, served_app, tool
from tests.support.service.house import House
from tests.support.service.mcp_house import McpHouse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from app.log.envelope import Event
    from app.log.records import RunRecord
    from app.store.open import Store
    from tests.support.log.killed import Moment

pytestmark = pytest.mark.postgres

PATIENCE_S = 20
LATE = "tool.answered_late"
JOB = 'call box__slow {"n":1}\n---\nsay on it goes'
TEXT = """{"text":"slow {'n': 1}"}"""
WELL = ToolOutcome(text='{"text":"paid"}')


@dataclass
class Listening:
    """A house with late results, and its one server."""

    world: McpHouse
    late: LateResults
    how: dict[str, Any]

    async def timed_out(self) -> RunRecord:
        """A run whose call of the server timed out."""
        await self.world.register(**self.how)
        house, alice = self.world.house, await self.world.house.person()
        await house.agent(tools=["box:*"], approval={"*": "allow"})
        return await house.drive(await alice.run(JOB))


@asynccontextmanager
async def listening(store: Store, tenant: str, transport: str = "http") -> AsyncIterator[Listening]:
    """The house beside a server that answers a call when it is cancelled."""
    tools = ToolServer([tool("slow")])
    app = deafened(tools.server().streamable_http_app(), tools.hold("slow").set)
    tiny = [sys.executable, deaf_server.__file__]
    async with served_app(app) as served:
        hosts = [served.host]
        reach = McpConnections(LoopClock(), commands={"tiny": tiny}, allow_hosts=hosts)
        async with reach.running():
            house = House(store, tenant, reach=reach)
            stdio = {"transport": "stdio", "url": None, "command": "tiny"}
            how = stdio if transport == "stdio" else {}
            async with recording(house) as late:
                reach.on_late(late.heard)
                yield Listening(McpHouse(house, tools, served), late, how)


@asynccontextmanager
async def recording(house: House) -> AsyncIterator[LateResults]:
    async with LateResults(house.store.database, house.clock, house.wakeups).running() as late:
        yield late


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls have half a second instead of a minute."""
    monkeypatch.setattr(
        "app.tools.toolbox.ScopedExecutor", partial(ScopedExecutor, call_limit_s=0.5)
    )


async def log_of(house: House, run: RunRecord) -> list[Event]:
    async with house.store.database.session(house.tenant) as session:
        return await session.events(LogScope(run.conversation_id), after=0, limit=1000)


async def late_ones(house: House, run: RunRecord, count: int = 1) -> list[Event]:
    """The late results of the conversation, as soon as there are so many."""

    async def look() -> list[Event]:
        return [event for event in await log_of(house, run) if event.type == LATE]

    waiting = house.wakeups.until(
        look,
        lambda found: len(found) >= count,
        conversation_id=run.conversation_id,
        seconds=PATIENCE_S,
    )
    return await asyncio.wait_for(waiting, PATIENCE_S)


def results(events: Sequence[Event]) -> list[tuple[str, str | None]]:
    return [
        (event.type, event.data.get("code"))
        for event in events
        if event.type in {"tool.completed", "tool.failed", "tool.settled"}
    ]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_f33_a_late_result_is_recorded_and_changes_nothing(
    store: Store, tenant: str, transport: str
) -> None:
    async with listening(store, tenant, transport) as here:
        run, house = await here.timed_out(), here.world.house
        (late,) = await late_ones(house, run)
        own, after = await house.events(run), await house.read(run)
        assert await house.driver.claim(run.conversation_id) is None
    assert results(own) == [("tool.failed", "tool_timeout")]
    (failed,) = [event for event in own if event.type == "tool.failed"]
    assert late.data == {
        "run_id": run.id,
        "call_id": "call_1_1_0",
        "tool": "box__slow",
        "result_seq": failed.seq,
        "failed": False,
        "sha256": sha256(TEXT.encode()).hexdigest(),
        "size_bytes": len(TEXT),
    }
    assert (late.run_id, late.trust.wire, late.private) == (None, "unspecified", None)
    assert (own[-1].type, run.status, after) == ("run.completed", "completed", run)


@pytest.mark.usefixtures("hasty")
async def test_f33_the_next_run_is_shown_the_same_to_the_byte(store: Store, tenant: str) -> None:
    """A twin of the conversation, whose call is never answered, has no late result."""
    async with listening(store, tenant) as here:
        run, house = await here.timed_out(), here.world.house
        await late_ones(house, run)
        here.late.heard(tenant, f"{run.id}:call_1_1_0", WELL)
        await late_ones(house, run, 2)
        here.world.tools.hold("slow")
        alice = await house.person()
        twin = await house.drive(await alice.run(JOB))
        shown = []
        for first in (run, twin):
            del house.script.requests[:]
            again = await alice.run("say more", conversation_id=first.conversation_id)
            assert (await house.drive(again)).status == "completed"
            (request,) = house.script.requests
            shown.append([message.model_dump_json() for message in request.messages])
    assert shown[0] == shown[1]


async def paid(house: House, *, cancelled: bool = False) -> RunRecord:
    """A run with one settled call: it was answered, or cancelled while it was asked about."""
    alice = await house.person()
    await house.agent(approval={"mutate": "ask" if cancelled else "allow"})
    run = await house.drive(await alice.run("call mutate {}\n---\nsay done"))
    return await alice.cancel(run) if cancelled else run


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_result_of_a_run_that_is_over_is_recorded_behind_its_end(
    house: House, cancelled: bool
) -> None:
    run = await paid(house, cancelled=cancelled)
    ended = [event.type for event in await house.events(run)]
    async with recording(house) as late:
        late.heard(house.tenant, f"{run.id}:call_1_1_0", WELL)
        (event,) = await late_ones(house, run)
    assert event.data["tool"] == "mutate"
    assert [event.type for event in await house.events(run)] == ended
    assert await house.read(run) == run


async def test_one_that_comes_before_its_call_is_settled_waits_for_that(house: House) -> None:
    alice = await house.person()
    await house.agent(approval={"mutate": "ask"})
    run = await house.drive(await alice.run("call mutate {}\n---\nsay done"))
    async with recording(house) as late:
        late.heard(house.tenant, f"{run.id}:call_1_1_0", WELL)
        (asked,) = await house.pending(run)
        assert LATE not in [event.type for event in await log_of(house, run)]
        await alice.approve(asked)
        run = await house.drive(run)
        (event,) = await late_ones(house, run)
    (completed,) = [e for e in await house.events(run) if e.type == "tool.completed"]
    assert completed.seq == event.data["result_seq"] < event.seq
    assert run.status == "completed"


async def hear(recorder: LateResults, house: House, run: RunRecord) -> None:
    """Hear a late result, and work on until the process ends."""
    async with recorder.running() as late:
        late.heard(house.tenant, f"{run.id}:call_1_1_0", WELL)
        await asyncio.Event().wait()


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_process_that_dies_with_a_late_result_records_it_once_or_not_at_all(
    house: House, moment: Moment
) -> None:
    """Nobody can hear it again, so it may be lost; neither the run nor the next one knows of it."""
    run = await paid(house)
    before = await log_of(house, run)
    deadly = DeadlyDatabase(house.store.database, Point(0, 0, moment))
    with pytest.raises(BaseExceptionGroup) as died:
        await hear(LateResults(deadly, house.clock, house.wakeups), house, run)
    assert died.group_contains(Killed)
    after = await log_of(house, run)
    assert after[: len(before)] == before
    assert [event.type for event in after[len(before) :]] == [LATE] * (moment == "after")
    alice = await house.person()
    again = await alice.run("say more", conversation_id=run.conversation_id)
    assert (await other(house).drive(again)).status == "completed"


@pytest.mark.parametrize("text", ["\x00", "\ud800", "x" * 4_000_000, ""])
async def test_of_what_it_says_there_is_a_digest_and_a_size_alone(house: House, text: str) -> None:
    run = await paid(house)
    async with recording(house) as late:
        late.heard(house.tenant, f"{run.id}:call_1_1_0", ToolOutcome(text=text, code="tool_failed"))
        (event,) = await late_ones(house, run)
    written = text.replace("\ud800", "\\ud800").encode()
    assert event.data["failed"]
    assert event.data["sha256"] == sha256(written).hexdigest()
    assert event.data["size_bytes"] == len(written)
    assert len(event.body) < 1000


@pytest.mark.parametrize("key", ["run_nobody:call_1_1_0", "", "\x00", "no colon"])
async def test_what_belongs_to_no_run_of_the_tenant_is_dropped(house: House, key: str) -> None:
    run = await paid(house)
    before = await log_of(house, run)
    async with recording(house) as late:
        late.heard(house.tenant, key, WELL)
        late.heard("tn_other", f"{run.id}:call_1_1_0", WELL)
        late.heard(house.tenant, f"{run.id}:call_1_1_0", WELL)
        await late_ones(house, run)
    assert len(await log_of(house, run)) == len(before) + 1


async def test_after_the_end_of_the_process_nothing_is_recorded(house: House) -> None:
    run = await paid(house)
    async with recording(house) as late:
        pass
    late.heard(house.tenant, f"{run.id}:call_1_1_0", WELL)
    assert LATE not in [event.type for event in await log_of(house, run)]


async def test_a_flood_is_bounded_and_what_waits_is_dropped_when_the_process_drains(
    house: House,
) -> None:
    alice = await house.person()
    await house.agent(approval={"mutate": "ask"})
    run = await house.drive(await alice.run("call mutate {}\n---\nsay done"))
    async with recording(house) as late:
        for _ in range(MAX_AT_ONCE):
            late.heard(house.tenant, f"{run.id}:call_1_1_0", WELL)
        done = await paid(house)
        late.heard(house.tenant, f"{done.id}:call_1_1_0", WELL)
        house.wakeups.close()
    for each in (run, done):
        assert LATE not in [event.type for event in await log_of(house, each)]


async def test_a_tenant_whose_late_results_wait_takes_no_place_of_another_s(house: House) -> None:
    """They may wait for minutes, as long as a batch of calls is not settled."""
    run = await paid(house)
    async with recording(house) as late:
        busy = House(house.store, f"{house.tenant}-busy")
        alice = await busy.person()
        await busy.agent(approval={"mutate": "ask"})
        open_run = await busy.drive(await alice.run("call mutate {}\n---\nsay done"))
        for _ in range(MAX_AT_ONCE + 1):
            late.heard(f"{house.tenant}-busy", f"{open_run.id}:call_1_1_0", WELL)
        late.heard(house.tenant, f"{run.id}:call_1_1_0", WELL)
        (event,) = await late_ones(house, run)
    assert event.data["run_id"] == run.id
    assert LATE not in [event.type for event in await log_of(busy, open_run)]
