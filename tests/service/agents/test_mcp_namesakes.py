"""A server that was removed, and one that was registered under its name afterwards (F16, F123).

It may list the very same tools: what was consented to was a tool of the server that was there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from app.service.agents.mcp_servers import McpServers
from app.service.refusals import NotFound
from tests.service.grants.granting import Holder
from tests.support.loopback.mcp_server import ToolServer, tool
from tests.support.service.mcp_house import mcp_house

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from app.log.records import ApprovalRecord, RunRecord
    from app.log.servers import McpListing, McpServerRecord
    from app.store.open import Store
    from app.tools.mcp.connections import McpConnections
    from tests.support.service.house import Person
    from tests.support.service.mcp_house import McpHouse

pytestmark = pytest.mark.postgres

LIST = [
    tool("pay", idempotent=True, destructive=False, open_world=False),
    tool("news", read_only=True, open_world=True),
]
JOB = 'call box__pay {"to":"a"}\n---\nsay done'
TAINTED = f"call box__news {{}}\n---\n{JOB}"
UNASKED = {"box__pay": "allow"}


async def removed(world: McpHouse) -> None:
    root = await world.house.person("root")
    async with world.house.store.database.transaction(world.house.tenant) as tx:
        await world.house.servers.delete(tx, root.caller, "box")


async def registered_again(world: McpHouse, *, elsewhere: bool) -> None:
    """The server of that name anew; `elsewhere` another one, which lists the same."""
    await removed(world)
    await world.register(url=world.served.url + ("?of=somebody-else" if elsewhere else ""))


async def registered_by_an_older_release(world: McpHouse) -> None:
    """The server as a database has it that was made before digests held an address."""
    server = await world.register()
    await removed(world)
    async with world.house.store.database.transaction(world.house.tenant) as tx:
        await tx.add_mcp_server(replace(server, digests_address=False))


async def asked(world: McpHouse, alice: Person) -> tuple[RunRecord, ApprovalRecord]:
    run = await world.house.drive(await alice.run(JOB))
    (approval,) = await world.house.pending(run)
    return run, approval


async def consented(world: McpHouse, alice: Person) -> dict[str, Any]:
    """A session approval for `box__pay`, which has served once; where it stands."""
    run, approval = await asked(world, alice)
    await alice.approve(approval, scope="session")
    run = await world.house.drive(run)
    again = {"conversation_id": run.conversation_id}
    assert (await world.house.drive(await alice.run(JOB, **again))).status == "completed"
    return again


@pytest.mark.parametrize(("elsewhere", "status"), [(False, "completed"), (True, "paused")])
async def test_f123_a_session_approval_serves_the_server_that_it_was_given_for(
    store: Store, tenant: str, elsewhere: bool, status: str
) -> None:
    async with mcp_house(store, tenant, ToolServer(list(LIST))) as world:
        await world.register()
        alice = await world.house.person()
        await world.house.agent(tools=["box:*"])
        again = await consented(world, alice)
        await registered_again(world, elsewhere=elsewhere)
        assert (await world.house.drive(await alice.run(JOB, **again))).status == status


async def test_f16_a_decision_authorises_no_call_of_a_namesake(store: Store, tenant: str) -> None:
    tools = ToolServer(list(LIST))
    async with mcp_house(store, tenant, tools) as world:
        await world.register()
        alice = await world.house.person()
        await world.house.agent(tools=["box:*"])
        run, approval = await asked(world, alice)
        await alice.approve(approval)
        await registered_again(world, elsewhere=True)
        run = await world.house.drive(run)
        (again,) = await world.house.pending(run)
    assert (again.status, tools.calls) == ("pending", [])
    assert again.id != approval.id
    assert "changed" in again.card["reason"]


@pytest.mark.parametrize(("elsewhere", "status"), [(False, "completed"), (True, "paused")])
async def test_f123_a_grant_serves_the_server_that_it_was_signed_for(
    store: Store, tenant: str, elsewhere: bool, status: str
) -> None:
    tools = ToolServer(list(LIST))
    async with mcp_house(store, tenant, tools) as world:
        await world.register()
        alice = await world.house.person()
        await world.house.agent(tools=["box:*"])
        _, approval = await asked(world, alice)
        digest = approval.card["tool_definition_digest"]
        await world.house.agent(tools=["box:*"], approval=UNASKED)
        holder = await Holder.of(world.house)
        await holder.grant(tool="box__pay", tool_definition_digest=digest)
        assert (await world.house.drive(await alice.run(TAINTED))).status == "completed"
        await registered_again(world, elsewhere=elsewhere)
        assert (await world.house.drive(await alice.run(TAINTED))).status == status


async def test_what_an_older_release_consented_to_serves_as_long_as_its_registration(
    store: Store, tenant: str
) -> None:
    async with mcp_house(store, tenant, ToolServer(list(LIST))) as world:
        await registered_by_an_older_release(world)
        alice = await world.house.person()
        await world.house.agent(tools=["box:*"])
        again = await consented(world, alice)
        world.tools.tools.append(tool("more", read_only=True))
        assert (await world.house.drive(await alice.run(JOB, **again))).status == "completed"
        await registered_again(world, elsewhere=False)
        assert (await world.house.drive(await alice.run(JOB, **again))).status == "paused"


@dataclass
class Overtaken:
    """A way to servers that takes long enough for something to happen `meanwhile`."""

    reach: McpConnections
    meanwhile: Callable[[], Awaitable[None]]

    async def objection(self, server: McpServerRecord) -> tuple[str, str] | None:
        return await self.reach.objection(server)

    async def look(self, server: McpServerRecord, *, limit_s: float) -> McpListing:
        found = await self.reach.look(server, limit_s=limit_s)
        await self.meanwhile()
        return found


async def test_what_a_server_lists_is_not_pinned_as_its_namesake_s(
    store: Store, tenant: str
) -> None:
    """It was removed while it was asked, by a refresh and by a turn that begins."""
    tools = ToolServer(list(LIST))
    async with mcp_house(store, tenant, tools) as world:

        async def replaced_meanwhile() -> None:
            tools.tools = list(LIST)
            await house.clock.let_pass(1)
            await registered_again(world, elsewhere=True)

        house, root = world.house, await world.house.person("root")
        servers = McpServers(
            database=house.store.database,
            clock=house.clock,
            reach=Overtaken(house.reach, replaced_meanwhile),
        )
        await world.register()
        tools.tools = [*LIST, tool("theirs")]
        asked, found = await servers.asked(root.caller, "box")
        async with house.store.database.transaction(tenant) as tx:
            with pytest.raises(NotFound):
                await servers.refresh(tx, root.caller, asked, found)
        await removed(world)
        await world.register()
        tools.tools = [*LIST, tool("theirs")]
        assert await servers.fresh(tenant, ["box"]) == []
        async with house.store.database.session(tenant) as session:
            there = await servers.read(session, "box")
    assert sorted(each.name for each in there.tools) == ["news", "pay"]
