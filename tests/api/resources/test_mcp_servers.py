"""MCP servers over the API: registered, listed, asked again, removed, and their tools."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from app.tools.mcp.connections import McpConnections
from app.turn.clock import LoopClock
from tests.support.api.world import EVERYDAY, api_world, pointers, problem
from tests.support.loopback.mcp_server import Served, ToolServer, served_tools, tool
from tests.tools.mcp.servers import tiny

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.store.open import Store
    from tests.support.api.world import ApiWorld, Person

pytestmark = pytest.mark.postgres

READ: dict[str, Any] = {"read_only": True, "open_world": False}
ADMIN = (*EVERYDAY, "admin")


@asynccontextmanager
async def reaching(
    store: Store, tenant: str, tools: ToolServer
) -> AsyncIterator[tuple[ApiWorld, Served]]:
    """A world beside a server of tools, which it may reach."""
    async with served_tools(tools) as served:
        reach = McpConnections(LoopClock(), commands={"tiny": tiny()}, allow_hosts=[served.host])
        async with reach.running(), api_world(store, reach=reach) as world:
            yield replace(world, tenant=tenant), served


async def tools_of(person: Person) -> dict[str, dict[str, Any]]:
    """The tools of MCP servers, as listed, by name."""
    items = (await person.get("/v1/tools?limit=200")).json()["items"]
    return {item["name"]: item for item in items if "__" in item["name"]}


async def test_a_registered_server_s_tools_are_listed_with_what_they_require(
    store: Store, tenant: str
) -> None:
    tools = ToolServer([tool("search", "Finds.", **READ), tool("write")])
    async with reaching(store, tenant, tools) as (world, served):
        admin = world.person(scopes=ADMIN)
        body = {
            "name": "github",
            "transport": "http",
            "url": served.url,
            "headers": {"Authorization": "Bearer sesame"},
            "registered": True,
        }
        answer = await admin.post("/v1/mcp-servers", body)
        assert answer.status_code == 201, answer.text
        document = answer.json()
        assert document["tools"] == ["github__search", "github__write"]
        assert document["viable"] is True
        assert "sesame" not in answer.text
        assert "headers" not in document
        listed = await tools_of(admin)
        search, write = listed["github__search"], listed["github__write"]
        assert search["origin"] == "registered-connector"
        assert search["required_capabilities"] == ["fixed-connector-read"]
        assert search["ingests_untrusted"] is False
        assert search["description"] == "Finds."
        assert search["viable"] is True
        assert write["required_capabilities"] == ["fixed-connector-read", "mutate-external"]
        assert write["ingests_untrusted"] is True


async def test_an_unregistered_server_s_tools_require_everything_whatever_it_says(
    store: Store, tenant: str
) -> None:
    """T85, I12."""
    tools = ToolServer([tool("search", idempotent=True, **READ)])
    async with reaching(store, tenant, tools) as (world, served):
        alice = world.person()
        body = {"name": "github", "transport": "http", "url": served.url}
        assert (await alice.post("/v1/mcp-servers", body)).status_code == 201
        search = (await tools_of(alice))["github__search"]
    assert search["origin"] == "unknown"
    assert len(search["required_capabilities"]) == 9
    assert search["ingests_untrusted"] is True
    assert search["idempotent"] is False


async def test_registered_needs_an_administrator(store: Store, tenant: str) -> None:
    tools = ToolServer([tool("search")])
    async with reaching(store, tenant, tools) as (world, served):
        body = {"name": "a", "transport": "http", "url": served.url, "registered": True}
        refused = problem(await world.person().post("/v1/mcp-servers", body), 403, "auth.scope")
    assert refused["scope"] == "admin"
    assert tools.listings == 0


async def test_the_operator_s_profile_stands_above_the_server_s_words(
    store: Store, tenant: str
) -> None:
    tools = ToolServer([tool("a", destructive=True), tool("b", **READ)])
    profile = {
        "a": {"read_only": True, "destructive": False, "open_world": False},
        "b": {"read_only": False},
    }
    async with reaching(store, tenant, tools) as (world, served):
        admin = world.person(scopes=ADMIN)
        body = {"name": "x", "transport": "http", "url": served.url, "registered": True}
        answer = await admin.post("/v1/mcp-servers", body | {"profile": profile})
        assert answer.status_code == 201, answer.text
        listed = await tools_of(admin)
    assert listed["x__a"]["required_capabilities"] == ["fixed-connector-read"]
    assert listed["x__b"]["required_capabilities"] == ["fixed-connector-read", "mutate-external"]


@pytest.mark.parametrize(
    ("changed", "code", "pointer"),
    [
        ({"name": "No_Such"}, "request.invalid", "/name"),
        ({"name": "x" * 33}, "request.invalid", "/name"),
        ({"transport": "telnet"}, "request.invalid", "/transport"),
        ({"shell": "sh"}, "request.invalid", "/shell"),
        ({"headers": {"a b": "c"}}, "request.invalid", "/headers/a b"),
        ({"headers": {"a": "b\r\nc: d"}}, "request.invalid", "/headers/a"),
        ({"headers": {"Host": "elsewhere"}}, "mcp.invalid", "/headers"),
        ({"headers": {"Mcp-Session-Id": "1"}}, "mcp.invalid", "/headers"),
        ({"url": None}, "mcp.invalid", "/url"),
        ({"command": "tiny"}, "mcp.invalid", "/command"),
        ({"transport": "stdio", "url": None}, "mcp.invalid", "/command"),
        ({"transport": "stdio", "command": "tiny"}, "mcp.invalid", "/url"),
        ({"transport": "stdio", "url": None, "command": "sh -c x"}, "mcp.invalid", "/command"),
        ({"url": "ftp://example.com"}, "mcp.invalid", "/url"),
        ({"url": "http://me:pw@example.com/"}, "mcp.invalid", "/url"),
        ({"url": "http://127.0.0.1:1/mcp"}, "mcp.invalid", "/url"),
        ({"url": "http://[::1]:1/mcp"}, "mcp.invalid", "/url"),
        ({"url": "http://[::ffff:10.0.0.1]/mcp"}, "mcp.invalid", "/url"),
        ({"url": "http://169.254.169.254/latest"}, "mcp.invalid", "/url"),
        ({"url": "http://2130706433/mcp"}, "mcp.invalid", "/url"),
    ],
)
async def test_f103_what_cannot_be_registered_is_refused_by_its_member(
    store: Store, tenant: str, changed: dict[str, Any], code: str, pointer: str
) -> None:
    async with reaching(store, tenant, ToolServer()) as (world, served):
        alice = world.person()
        body = {"name": "a", "transport": "http", "url": served.url} | changed
        body = {name: value for name, value in body.items() if value is not None}
        refused = problem(await alice.post("/v1/mcp-servers", body), 422, code)
        assert pointers(refused) == [pointer]
        assert (await alice.get("/v1/mcp-servers")).json()["items"] == []


async def test_a_process_of_the_operator_is_registered_by_its_name(
    store: Store, tenant: str
) -> None:
    async with reaching(store, tenant, ToolServer()) as (world, _):
        body = {"name": "local", "transport": "stdio", "command": "tiny"}
        answer = await world.person().post("/v1/mcp-servers", body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["tools"] == ["local__tool"]


async def test_a_server_that_is_away_is_registered_and_refreshed_when_it_is_back(
    store: Store, tenant: str
) -> None:
    async with reaching(store, tenant, ToolServer()) as (world, served):
        alice = world.person()
        away = served.url.replace("/mcp", "/nothing")
        body = {"name": "a", "transport": "http", "url": away}
        answer = await alice.post("/v1/mcp-servers", body)
        assert answer.status_code == 201
        assert answer.json()["viable"] is False
        assert answer.json()["why_not"]
        again = await alice.post("/v1/mcp-servers/a/refresh")
        assert again.json()["why_not"] == answer.json()["why_not"]


async def test_a_refresh_pins_what_the_server_lists_now(store: Store, tenant: str) -> None:
    """F16, T86: another digest; what was declared before is not forgotten."""
    tools = ToolServer([tool("pay", "Pays.", **READ), tool("gone")])
    async with reaching(store, tenant, tools) as (world, served):
        admin = world.person(scopes=ADMIN)
        body = {"name": "a", "transport": "http", "url": served.url, "registered": True}
        await admin.post("/v1/mcp-servers", body)
        before = await tools_of(admin)
        tools.tools = [tool("pay", "Pays me.", read_only=False), tool("new name")]
        answer = await admin.post("/v1/mcp-servers/a/refresh")
        assert answer.json()["tools"] == ["a__pay"]
        assert len(answer.json()["refused"]) == 1
        grown = await tools_of(admin)
        tools.tools = [tool("pay", "Pays.", **READ)]
        await admin.post("/v1/mcp-servers/a/refresh")
        after = await tools_of(admin)
    assert list(grown) == ["a__pay"]
    digests = [each["a__pay"]["definition_digest"] for each in (before, grown, after)]
    assert digests[0] != digests[1] != digests[2]
    required = [each["a__pay"]["required_capabilities"] for each in (before, grown, after)]
    assert required[0] == ["fixed-connector-read"]
    assert required[1] == required[2] == ["fixed-connector-read", "mutate-external"]


async def test_a_name_is_taken_once_and_free_after_its_removal(store: Store, tenant: str) -> None:
    async with reaching(store, tenant, ToolServer()) as (world, served):
        alice = world.person()
        body = {"name": "a", "transport": "http", "url": served.url}
        assert (await alice.post("/v1/mcp-servers", body)).status_code == 201
        taken = problem(await alice.post("/v1/mcp-servers", body), 422, "mcp.invalid")
        assert pointers(taken) == ["/name"]
        assert (await alice.delete("/v1/mcp-servers/a")).status_code == 204
        problem(await alice.delete("/v1/mcp-servers/a"), 404, "not_found")
        problem(await alice.get("/v1/mcp-servers/a"), 404, "not_found")
        problem(await alice.post("/v1/mcp-servers/a/refresh"), 404, "not_found")
        assert (await alice.post("/v1/mcp-servers", body)).status_code == 201


async def test_a_registration_is_made_once_for_one_key(store: Store, tenant: str) -> None:
    async with reaching(store, tenant, ToolServer([tool("a")])) as (world, served):
        alice = world.person()
        body = {"name": "a", "transport": "http", "url": served.url}
        first = await alice.post("/v1/mcp-servers", body, Idempotency_Key="one")
        again = await alice.post("/v1/mcp-servers", body, Idempotency_Key="one")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json()


async def test_two_tenants_have_servers_of_one_name(store: Store, tenant: str) -> None:
    tools = ToolServer([tool("search")])
    async with reaching(store, tenant, tools) as (world, served):
        body = {"name": "a", "transport": "http", "url": served.url}
        alice, mallory = world.person(), world.person(tenant=f"{tenant}-other")
        assert (await alice.post("/v1/mcp-servers", body)).status_code == 201
        assert await tools_of(mallory) == {}
        problem(await mallory.get("/v1/mcp-servers/a"), 404, "not_found")
        assert (await mallory.post("/v1/mcp-servers", body)).status_code == 201
        assert (await mallory.delete("/v1/mcp-servers/a")).status_code == 204
        assert list(await tools_of(alice)) == ["a__search"]


async def test_servers_are_listed_newest_first_page_by_page(store: Store, tenant: str) -> None:
    async with reaching(store, tenant, ToolServer()) as (world, served):
        alice = world.person()
        for name in ("a", "c", "b"):
            body = {"name": name, "transport": "http", "url": served.url}
            assert (await alice.post("/v1/mcp-servers", body)).status_code == 201
            world.clock.step(1)
        first = (await alice.get("/v1/mcp-servers?limit=2")).json()
        cursor = first["next_cursor"]
        rest = (await alice.get(f"/v1/mcp-servers?limit=2&cursor={cursor}")).json()
    assert [item["name"] for item in (*first["items"], *rest["items"])] == ["b", "c", "a"]
    assert rest["next_cursor"] is None


async def test_agents_name_a_server_or_one_of_its_tools(store: Store, tenant: str) -> None:
    async with reaching(store, tenant, ToolServer([tool("search")])) as (world, served):
        alice = world.person()
        body = {"name": "github", "transport": "http", "url": served.url}
        await alice.post("/v1/mcp-servers", body)
        await alice.agent("both", tools=["github:*", "github__search"])
        agent = {"model": "script", "tools": ["github__pay", "gitlab:*"]}
        refused = problem(await alice.put("/v1/agents/none", agent), 422, "agent.invalid")
    assert pointers(refused) == ["/tools/0", "/tools/1"]


async def test_what_was_done_is_in_the_audit_log_without_secrets(store: Store, tenant: str) -> None:
    async with reaching(store, tenant, ToolServer([tool("search")])) as (world, served):
        admin = world.person("root", scopes=ADMIN)
        body = {
            "name": "github",
            "transport": "http",
            "url": f"{served.url}?token=sesame",
            "headers": {"Authorization": "Bearer sesame"},
        }
        assert (await admin.post("/v1/mcp-servers", body)).status_code == 201
        await admin.delete("/v1/mcp-servers/github")
        answer = await admin.get("/v1/audit/events")
    saved, deleted = answer.json()["items"][::2]
    assert (saved["type"], deleted["type"]) == ("mcp.saved", "mcp.deleted")
    assert saved["data"]["by"] == "root"
    assert saved["data"]["resource"]["url"] == served.url
    assert list(saved["data"]["resource"]["tools"]) == ["search"]
    assert deleted["data"] == {"resource": {"name": "github"}, "by": "root"}
    assert "sesame" not in answer.text
