"""A worker process killed right before and right after the commit of every event of a run.

The run has two steps, a gated `http_post` and a `files_write` beside it. Whatever the moment, the
run that another process takes over tells the same story as its uninterrupted twin, and the receiver
of the post has one effect under one key.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import pytest_asyncio

from app.log.catalogue import PAYLOADS
from app.log.queries import LogScope
from app.service.clock import SystemClock
from tests.e2e.processes import UNMEASURED
from tests.service.driving.twins import is_whole, run_again, told
from tests.support.appenders import BY_REQUESTS
from tests.support.loopback.web_server import page, web_server
from tests.support.service.crash_worker import DIED, driver_on
from tests.support.service.house import House

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from app.log.records import RunRecord
    from app.store.open import Store
    from tests.support.clock import PlayedClock
    from tests.support.log.killed import Moment
    from tests.support.loopback.web_server import WebServer
    from tests.support.service.house import Person

pytestmark = [pytest.mark.postgres, pytest.mark.e2e, pytest.mark.fault]

ROOT = Path(__file__).parents[2]

# What a worker appends before the pause and after it, in order; a request appends the rest.
BEFORE_PAUSE = """
    run.started context.assembled step.started text.delta message.assistant call.gated
    run.checkpointed approval.requested run.paused
"""
AFTER_PAUSE = """
    run.resumed tool.started tool.started tool.completed tool.completed step.completed step.started
    text.delta message.assistant step.completed run.completed
"""
# The clock is the machine's.
TIMES = {"requested_at", "expires_at", "duration_ms"}


@dataclass(frozen=True)
class Point:
    """The `nth` event of a type that a worker appends before or after the pause."""

    is_resume: bool
    event: str
    nth: int
    moment: Moment

    @property
    def name(self) -> str:
        return f"{'resume' if self.is_resume else 'start'}-{self.moment}-{self.event}-{self.nth}"


def points() -> Iterable[Point]:
    for is_resume, types in ((False, BEFORE_PAUSE.split()), (True, AFTER_PAUSE.split())):
        seen: Counter[str] = Counter()
        for event in types:
            seen[event] += 1
            for moment in ("before", "after"):
                yield Point(is_resume, event, seen[event], moment)


@dataclass
class Scene:
    """A process that asks and decides, and works where nobody dies; others that work and die."""

    house: House
    alice: Person
    web: WebServer
    worker: asyncio.subprocess.Process

    async def start(self) -> RunRecord:
        post = json.dumps({"url": self.web.url("/orders"), "body": "{}"})
        write = json.dumps({"path": "order.txt", "content": "sent"})
        calls = f"call http_post {post}\ncall files_write {write}"
        return await self.alice.run(f"delay 5\nsay let me see\n{calls}\n---\ndelay 5\nsay all sent")

    async def drive(self, run: RunRecord, point: Point | None = None) -> RunRecord:
        """Let a process drive the run; one that is to die must die there."""
        job: dict[str, Any] = {"conversation": run.conversation_id}
        if point is not None:
            job |= {"event": point.event, "nth": point.nth, "moment": point.moment}
        assert self.worker.stdin is not None
        assert self.worker.stdout is not None
        self.worker.stdin.write(json.dumps(job).encode() + b"\n")
        status = int(await self.worker.stdout.readline())
        assert status == (0 if point is None else DIED)
        return await self.house.read(run)

    async def outlived(self, run: RunRecord, point: Point) -> RunRecord:
        """One process dies in the run at that point, and another takes it over."""
        await self.drive(run, point)
        await self.house.free(run)
        return await self.drive(run)

    async def approve_all(self, run: RunRecord) -> None:
        for asked in await self.house.pending(run):
            await self.alice.approve(asked)

    async def play(self, point: Point | None = None) -> RunRecord:
        """The whole job, with a death at that point, and another process that goes on."""
        run = await self.start()
        for is_resume in (False, True):
            if point is not None and point.is_resume is is_resume:
                run = await self.outlived(run, point)
            else:
                run = await self.house.drive(run)
            await self.approve_all(run)
        # Where the outcome of the post is unknown, a person has ordered it once more.
        return await self.house.drive(run)


@pytest_asyncio.fixture
async def scene(store: Store, tenant: str, dsn: str) -> AsyncIterator[Scene]:
    async with web_server() as web:
        web.pages["/orders"] = page(b'{"ok":true}', headers=(("Content-Type", "text/plain"),))
        house = House(store, tenant, clock=cast("PlayedClock", SystemClock()))
        await house.agent(tools=["http_post", "files_write"])
        host = f"{web.host}:{web.port}"
        worker = await asyncio.create_subprocess_exec(
            *UNMEASURED,
            *(sys.executable, "-m", "tests.support.service.crash_worker", dsn, host),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        try:
            async with driver_on(store, store.leases, host=host) as house.driver:
                yield Scene(house, await house.person(), web, worker)
        finally:
            assert worker.stdin is not None
            worker.stdin.close()
            await worker.wait()


async def told_of(house: House, run: RunRecord) -> list[str]:
    """What the whole log tells; nothing in it but a seal is out of place."""
    async with house.store.database.session(house.tenant) as session:
        log = await session.events_of(LogScope(run.conversation_id), tuple(PAYLOADS))
    assert is_whole(log)
    assert run_again(log) <= {"files_write"}
    return told(log, without=TIMES)


def effects(web: WebServer) -> list[str]:
    """The keys of the posts that a receiver which honours them would have carried out."""
    return list(dict.fromkeys(seen.headers["idempotency-key"] for seen in web.seen))


async def test_a_run_killed_at_any_event_tells_the_story_of_its_twin(scene: Scene) -> None:
    twin = await scene.play()
    assert twin.status == "completed"
    wanted = await told_of(scene.house, twin)
    by_workers = {t for t in await scene.house.types(twin) if t not in BY_REQUESTS}
    assert by_workers == {*BEFORE_PAUSE.split(), *AFTER_PAUSE.split()}
    for point in points():
        scene.web.seen.clear()
        run = await scene.play(point)
        assert run.status == "completed", point.name
        assert await told_of(scene.house, run) == wanted, point.name
        reruns = sum(
            asked.card["risk"]["outcome_unknown"] for asked in await scene.house.asked(run)
        )
        assert effects(scene.web) == [f"{run.id}:call_1_1_0"], point.name
        assert len(scene.web.seen) <= 1 + reruns, point.name
