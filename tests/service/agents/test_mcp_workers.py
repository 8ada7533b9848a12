"""MCP tools in the hands of workers: at the intersection of what both agents name (turn.md 7.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.service.driving.delegating import delegate
from tests.support.loopback.mcp_server import ToolServer, tool
from tests.support.service.mcp_house import mcp_house

if TYPE_CHECKING:
    from app.store.open import Store
    from tests.support.service.mcp_house import McpHouse

pytestmark = pytest.mark.postgres

READ: dict[str, Any] = {"read_only": True, "open_world": False}
WRITE: dict[str, Any] = {"destructive": False, "open_world": False}
JOB = f"{delegate('w')}\n---\nsay ok"


async def staffed(world: McpHouse, *, boss: list[str], worker: list[str], script: str) -> None:
    """Save `boss` and its worker `w`, each with these tools."""
    await world.house.agent("w", tools=worker, instructions=f"#script\n{script}\n---\nsay 42")
    await world.house.agent("boss", tools=boss, delegates=[{"agent": "w"}])


@pytest.mark.parametrize(
    ("boss", "worker", "has"),
    [
        (["box:*"], ["box:*"], {"read", "look"}),
        (["box__read"], ["box:*"], {"read"}),
        (["box:*"], ["box__look"], {"look"}),
        (["box__read"], ["box__look"], set()),
        (["clock_now"], ["box:*"], set()),
    ],
)
async def test_a_worker_has_of_a_server_what_both_agents_name(
    store: Store, tenant: str, *, boss: list[str], worker: list[str], has: set[str]
) -> None:
    tools = ToolServer([tool("read", **READ), tool("look", **READ)])
    async with mcp_house(store, tenant, tools) as world:
        await world.register()
        both = "call box__read {}\ncall box__look {}"
        await staffed(world, boss=boss, worker=worker, script=both)
        alice = await world.house.person()
        run = await world.house.drive(await alice.run(JOB, agent="boss"))
        settled = await world.house.data(run, "tool.settled")
        assert run.status == "completed"
    assert {call.name for call in tools.calls} == has
    refused = {one["tool"].removeprefix("box__"): one["outcome"] for one in settled}
    assert refused == dict.fromkeys({"read", "look"} - has, "unknown_tool")


async def test_a_worker_s_call_of_a_server_is_asked_about_on_the_root_run(
    store: Store, tenant: str
) -> None:
    tools = ToolServer([tool("pay", **WRITE)])
    async with mcp_house(store, tenant, tools) as world:
        await world.register()
        pay = 'call box__pay {"to":"a"}'
        await staffed(world, boss=["box:*"], worker=["box:*"], script=pay)
        alice = await world.house.person()
        run = await world.house.drive(await alice.run(JOB, agent="boss"))
        (asked,) = await world.house.pending(run)
        assert (asked.card["tool"], asked.card["worker"]["agent"]) == ("box__pay", "w")
        assert tools.calls == []
        await alice.approve(asked)
        assert (await world.house.drive(run)).status == "completed"
    assert [call.arguments for call in tools.calls] == [{"to": "a"}]


async def test_an_untrusted_description_taints_the_worker_and_so_its_answer(
    store: Store, tenant: str
) -> None:
    """T127: the worker was offered the words of a server that nobody vouches for."""
    async with mcp_house(store, tenant, ToolServer([tool("read", **READ)])) as world:
        await world.register(registered=False)
        await staffed(world, boss=["box__read"], worker=["box__read"], script="say hm")
        await world.house.agent("lean", tools=["clock_now"], delegates=[{"agent": "w"}])
        alice = await world.house.person()
        run = await world.house.drive(await alice.run(JOB, agent="boss"))
        (ended,) = await world.house.data(run, "delegate.completed")
        assert (ended["tainted"], run.tainted) == (True, True)
        lean = await world.house.drive(await alice.run(JOB, agent="lean"))
        (ended,) = await world.house.data(lean, "delegate.completed")
        assert (ended["tainted"], lean.tainted) == (False, False)
