"""A process of the API killed around every commit of every write, and the client's second try.

Right before a commit: nothing of the request is there, and the same request with the same
Idempotency-Key does it. Right after it: the same request is answered as the first would have been,
and nothing is done twice. Whole logs, answers and the rows of every table are held against those of
an undisturbed twin. A worker's deaths are in tests/service/driving/test_killed_anywhere.py.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from app.log.catalogue import PAYLOADS
from app.tools.mcp.connections import McpConnections
from app.turn.clock import LoopClock
from tests.api.request_stories import STORIES, a_refusal
from tests.support.api.killed_requests import DeadlyDatabase, Point, Told, operations
from tests.support.api.world import api_world
from tests.support.appenders import BY_REQUESTS, BY_WORKERS
from tests.support.loopback.mcp_server import ToolServer, served_tools, tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.store.open import Store
    from tests.api.request_stories import Story
    from tests.support.api.world import ApiWorld
    from tests.support.log.killed import Moment
    from tests.support.loopback.mcp_server import Served

pytestmark = [
    pytest.mark.unmeasured,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.postgres,
    pytest.mark.fault,
]

_tenants = count(1)


@dataclass(frozen=True)
class Stage:
    """Two processes of the API, of which one may die, beside a server of tools."""

    living: ApiWorld
    mortal: ApiWorld
    deadly: DeadlyDatabase
    tools: Served

    async def play(
        self, story: Story, point: Point | None = None, *, keeps_key: bool = True
    ) -> Told:
        """A story, among people of a tenant of its own."""
        tenant = f"killed-{next(_tenants)}"
        living, mortal = replace(self.living, tenant=tenant), replace(self.mortal, tenant=tenant)
        told = Told(living, mortal, self.deadly, self.tools.url, point, keeps_key)
        await story(told)
        return told


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stage(shared_store: Store) -> AsyncIterator[Stage]:
    deadly = DeadlyDatabase(shared_store.database)
    async with AsyncExitStack() as opened:
        tools = await opened.enter_async_context(served_tools(ToolServer([tool("search")])))
        worlds = []
        for database in (shared_store.database, deadly):
            reach = McpConnections(LoopClock(), commands={}, allow_hosts=[tools.host])
            await opened.enter_async_context(reach.running())
            world = api_world(shared_store, reach=reach, database=database)
            worlds.append(await opened.enter_async_context(world))
        yield Stage(worlds[0], worlds[1], deadly, tools)


@pytest.mark.parametrize("title", STORIES)
async def test_a_request_killed_at_any_commit_is_done_once_by_its_repeat(
    stage: Stage, title: str
) -> None:
    twin = await stage.play(STORIES[title])
    wanted, rows = await twin.whole(), await twin.counts()
    for point in twin.points():
        told = await stage.play(STORIES[title], point)
        where = (twin.requests[point.request][0], point)
        assert all(status < 300 for status, _ in told.answers), where
        assert await told.whole() == wanted, where
        assert await told.counts() == rows, where


# What a client is told that repeats itself without a key (service.md 4 and 5).
ALREADY: dict[str, tuple[int, dict[str, Any]]] = {
    "approve_approval": (200, {"persisted": False}),
    "deny_approval": (200, {"persisted": False}),
    "cancel_run": (202, {"status": "cancelled"}),
    "answer_question": (409, {"code": "question.answered"}),
}


@pytest.mark.parametrize("title", ["the main job", "answers and ends"])
async def test_the_same_again_without_a_key_is_told_that_it_is_done(
    stage: Stage, title: str
) -> None:
    twin = await stage.play(STORIES[title])
    wanted = await twin.log()
    points = [point for point in twin.points() if twin.requests[point.request][0] in ALREADY]
    assert points
    for point in points:
        told = await stage.play(STORIES[title], point, keeps_key=False)
        status, answer = told.answers[point.request]
        if point.moment == "after":
            already = ALREADY[twin.requests[point.request][0]]
            assert (status, {name: answer[name] for name in already[1]}) == already, point
        assert await told.log() == wanted, point


@pytest.mark.parametrize(("moment", "noted"), [("before", 1), ("after", 2)])
async def test_a_refusal_is_noted_for_each_attempt_and_leaves_the_key_free(
    stage: Stage, moment: Moment, noted: int
) -> None:
    """Nothing of a refused request is kept but the note of it, so its repeat is another attempt."""
    twin = await stage.play(a_refusal)
    told = await stage.play(a_refusal, Point(1, 0, moment))
    types = await told.types()
    assert types.count("decision.refused") == noted
    assert [one for one in types if one != "decision.refused"] == [
        one for one in await twin.types() if one != "decision.refused"
    ]


async def test_every_write_and_every_type_that_requests_append_has_its_deaths(
    stage: Stage,
) -> None:
    stage.deadly.appended.clear()
    sent = set[str]()
    for story in (*STORIES.values(), a_refusal):
        sent |= {operation for operation, _ in (await stage.play(story)).requests}
    assert sent == operations().keys()
    assert stage.deadly.appended == BY_REQUESTS
    assert PAYLOADS.keys() == BY_REQUESTS | BY_WORKERS
