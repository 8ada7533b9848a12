"""The escape hatch from the agent's flag to the log, over the store's search (turn.md 7.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.service.deaths import doomed, killed, other
from tests.support.loopback.mcp_server import ToolServer, tool
from tests.support.service.house import House
from tests.support.service.house_tools import CountingTools
from tests.support.service.mcp_house import mcp_house

if TYPE_CHECKING:
    from app.log.records import RunRecord
    from app.store.open import Store

pytestmark = pytest.mark.postgres

FILLING = {f"filler_{at}": "Does nothing of interest." for at in range(40)}
HIDDEN = {
    "customers_search": "Search customers by their name.",
    "invoice_create": "Bill somebody.",
}
MISS = 'call find_customer {"name":"Ada"}\n---\nsay seen'


async def crm_house(store: Store, tenant: str, **members: Any) -> House:
    """A house whose server `crm` has 42 tools, the last two of which do not fit."""
    house = House(store, tenant, tools=CountingTools(served=FILLING | HIDDEN))
    await house.agent(tools=["crm:*"], **members)
    return house


async def driven(house: House, text: str) -> RunRecord:
    alice = await house.person()
    return await house.drive(await alice.run(text))


async def test_t117_a_miss_names_the_nearest_tools_is_logged_and_the_call_does_not_run(
    store: Store, tenant: str
) -> None:
    house = await crm_house(store, tenant, escape_hatch=True)
    run = await driven(house, MISS)
    assert run.status == "completed"
    (settled,) = await house.data(run, "tool.settled")
    assert (settled["tool"], settled["outcome"]) == ("find_customer", "tools_now_available")
    assert "crm__customers_search" in settled["result"]
    (missed,) = await house.data(run, "retrieval.missed")
    assert (missed["tool"], missed["offered"]) == ("find_customer", ["crm__customers_search"])
    assert missed["call_id"] == settled["call_id"]
    assert house.tools.calls == []
    assert await house.data(run, "call.gated") == []


async def test_t117_with_the_hatch_off_the_same_call_is_to_an_unknown_tool(
    store: Store, tenant: str
) -> None:
    house = await crm_house(store, tenant)
    run = await driven(house, MISS)
    (settled,) = await house.data(run, "tool.settled")
    assert settled["outcome"] == "unknown_tool"
    assert await house.data(run, "retrieval.missed") == []


async def test_t117_a_second_miss_is_ordinary_within_one_batch_too(
    store: Store, tenant: str
) -> None:
    house = await crm_house(store, tenant, escape_hatch=True)
    run = await driven(house, "call find_customer {}\ncall create_invoice {}\n---\nsay seen")
    outcomes = [one["outcome"] for one in await house.data(run, "tool.settled")]
    assert outcomes == ["tools_now_available", "unknown_tool"]
    assert len(await house.data(run, "retrieval.missed")) == 1


@pytest.mark.parametrize("rule", ["allow", "ask"])
async def test_t118_a_recovered_tool_meets_the_ordinary_gate_when_re_issued(
    store: Store, tenant: str, rule: str
) -> None:
    house = await crm_house(store, tenant, escape_hatch=True, approval={"crm:*": rule})
    run = await driven(house, "call customers {}\n---\ncall crm__customers_search {}\n---\nsay ok")
    assert run.status == ("completed" if rule == "allow" else "paused")
    assert house.tools.count("crm__customers_search") == (rule == "allow")
    if rule == "ask":
        alice = await house.person()
        (asked,) = await house.pending(run)
        assert asked.card["title"] == "Crm__Customers_Search"
        await alice.approve(asked)
        assert (await house.drive(run)).status == "completed"
        assert house.tools.count("crm__customers_search") == 1


async def test_t118_a_tool_outside_of_the_agent_s_scope_is_never_recovered(
    store: Store, tenant: str
) -> None:
    house = await crm_house(store, tenant, escape_hatch=True)
    run = await driven(house, 'call mutate {"why":"invoice"}\n---\nsay seen')
    (missed,) = await house.data(run, "retrieval.missed")
    assert missed["offered"] == ["crm__invoice_create"]
    run = await driven(house, "call mutate {}\n---\nsay seen")
    (settled,) = await house.data(run, "tool.settled")
    assert settled["outcome"] == "unknown_tool"


async def test_t119_a_first_miss_without_a_match_is_ordinary_and_uses_the_hatch_up(
    store: Store, tenant: str
) -> None:
    house = await crm_house(store, tenant, escape_hatch=True)
    run = await driven(house, "call weather {}\n---\ncall find_customer {}\n---\nsay seen")
    outcomes = [one["outcome"] for one in await house.data(run, "tool.settled")]
    assert outcomes == ["unknown_tool", "unknown_tool"]
    assert await house.data(run, "retrieval.missed") == []


async def test_a_tool_of_a_large_mcp_server_is_found_offered_and_called(
    store: Store, tenant: str
) -> None:
    """Over the real protocol: 60 tools, the last of which the model has never been shown."""
    harmless: dict[str, Any] = {"read_only": True, "open_world": False}
    listed = [tool(f"filler-{at}", **harmless) for at in range(59)]
    schema = {"type": "object", "properties": {"customer_name": {"type": "string"}}}
    server = ToolServer(
        [*listed, tool("crm-lookup", "Looks people up.", schema=schema, **harmless)]
    )
    program = 'call find_customers {"name":"Ada"}\n---\ncall box__crm-lookup {}\n---\nsay ok'
    async with mcp_house(store, tenant, server) as world:
        await world.register()
        await world.house.agent(tools=["box:*"], escape_hatch=True)
        run = await driven(world.house, program)
        (missed,) = await world.house.data(run, "retrieval.missed")
        assert missed["offered"] == ["box__crm-lookup"]
        assert (run.status, run.tainted) == ("completed", False)
    assert server.count("crm-lookup") == 1


async def test_offering_an_untrusted_description_later_taints_then(
    store: Store, tenant: str
) -> None:
    server = ToolServer([tool(f"filler-{at}") for at in range(40)] + [tool("lookup")])
    async with mcp_house(store, tenant, server) as world:
        await world.register(registered=False)
        await world.house.agent(tools=["box:*"], escape_hatch=True)
        run = await driven(world.house, "call lookup {}\n---\nsay ok")
        assert [one["offered"] for one in await world.house.data(run, "retrieval.missed")] == [
            ["box__lookup"]
        ]
        assert run.tainted


@pytest.mark.fault
async def test_the_hatch_fires_once_per_turn_whichever_processes_drive_it(
    store: Store, tenant: str
) -> None:
    """I9; what it has offered is offered by the other process as well."""
    house = await crm_house(store, tenant, escape_hatch=True)
    alice = await house.person()
    program = "call customers {}\n---\ncall invoices {}\n---\ncall crm__customers_search {}\n---\n"
    run = await alice.run(program + "say ok")
    await killed(doomed(house, "step.completed", "after"), run)
    run = await other(house).drive(run)
    assert [one["outcome"] for one in await house.data(run, "tool.settled")] == [
        "tools_now_available",
        "unknown_tool",
    ]
    assert (run.status, len(await house.data(run, "retrieval.missed"))) == ("completed", 1)
    assert house.tools.count("crm__customers_search") == 1
