"""MCP servers: registered, asked for their tools, removed (service.md 3).

A server is asked outside of every transaction, for it may take its time; what it said is merged
into what is pinned and written only if nobody else wrote meanwhile.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Final

from app.errors import StoreUnavailable
from app.log.audit import McpDeleted, McpSaved
from app.log.envelope import NewEvent
from app.log.servers import McpServerRecord
from app.service.agents.mcp_pins import pinned
from app.service.agents.mcp_spec import faults_of
from app.service.refusals import FieldFault, McpInvalid, NotFound, ScopeMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from app.log.payload import Payload
    from app.log.queries import Page
    from app.log.servers import McpListing
    from app.service.agents.mcp_spec import McpServerSpec
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Database, Session, Transaction
    from app.service.ports.tools import McpReach

MAX_SERVERS: Final = 100
# How long a person waits for a server; a turn that begins; and a turn, for one that was away.
LOOK_S: Final = 20.0
FRESHEN_S: Final = 8.0
AWAY_S: Final = 2.0
_ATTEMPTS: Final = 5


class McpServers:
    """The tenant's MCP servers."""

    def __init__(self, *, database: Database, clock: Clock, reach: McpReach) -> None:
        self._database = database
        self._clock = clock
        self._reach = reach

    async def proposed(self, caller: Caller, spec: McpServerSpec) -> McpServerRecord:
        """The server as it would be registered, asked for its tools.

        Raises McpInvalid, ScopeMissing (admin).
        """
        if spec.registered and not caller.is_admin:
            raise ScopeMissing("admin")
        if faults := faults_of(spec):
            raise McpInvalid(str(faults[0]), faults=faults)
        server = self._record(caller, spec)
        if (objection := await self._reach.objection(server)) is not None:
            fault = FieldFault(*objection)
            raise McpInvalid(str(fault), faults=(fault,))
        found = await self._reach.look(server, limit_s=LOOK_S)
        return pinned(server, found, now=self._clock.now())

    async def add(self, tx: Transaction, caller: Caller, server: McpServerRecord) -> None:
        """Register a proposed server. Raises McpInvalid when its name is taken."""
        await self._note(tx, McpSaved(resource=_audited(server), by=caller.principal))
        if len(await tx.mcp_servers()) >= MAX_SERVERS:
            raise McpInvalid(f"a tenant has at most {MAX_SERVERS} servers")
        if not await tx.add_mcp_server(server):
            fault = FieldFault("/name", f"there is a server {server.name!r}; delete it first")
            raise McpInvalid("the name is taken", faults=(fault,))

    async def asked(self, caller: Caller, name: str) -> tuple[McpServerRecord, McpListing]:
        """The server, and what it lists now. Raises NotFound."""
        async with self._database.session(caller.tenant) as session:
            server = await self.read(session, name)
        return server, await self._reach.look(server, limit_s=LOOK_S)

    async def refresh(
        self, tx: Transaction, caller: Caller, asked: McpServerRecord, found: McpListing
    ) -> McpServerRecord:
        """Pin what the server that was asked was found to list. Raises NotFound."""
        server = await self._as_it_is(tx, asked)
        after = pinned(server, found, now=self._clock.now())
        await self._note(tx, McpSaved(resource=_audited(after), by=caller.principal))
        return await self._pinned(tx, server, found)

    async def read(self, session: Session, name: str) -> McpServerRecord:
        """The server of that name. Raises NotFound."""
        found = await session.mcp_servers([name])
        if not found:
            raise NotFound("MCP server")
        return found[0]

    async def page(self, session: Session, page: Page) -> list[McpServerRecord]:
        """The tenant's servers, newest first; `before` is the time and name of the last one."""
        servers = await session.mcp_servers()
        if page.before is not None:
            time, _, name = page.before.partition("/")
            last = (datetime.fromisoformat(time), name)
            servers = [each for each in servers if (each.created_at, each.name) < last]
        return servers[: page.limit]

    async def delete(self, tx: Transaction, caller: Caller, name: str) -> None:
        """Remove a server, and all that is remembered of it. Raises NotFound."""
        await self._note(tx, McpDeleted(resource={"name": name}, by=caller.principal))
        if not await tx.delete_mcp_server(name):
            raise NotFound("MCP server")

    async def fresh(self, tenant: str, names: Sequence[str]) -> list[McpServerRecord]:
        """The servers of these names as they are now, for a turn that begins.

        One that does not answer in time is not offered, and what it was is still pinned.
        """
        async with self._database.session(tenant) as session:
            servers = await session.mcp_servers(names)
        async with asyncio.TaskGroup() as group:
            asking = [
                group.create_task(self._reach.look(server, limit_s=_patience(server)))
                for server in servers
            ]
        fresh = [
            await self._freshened(server, asked.result())
            for server, asked in zip(servers, asking, strict=True)
        ]
        return [server for server in fresh if server is not None]

    async def _freshened(
        self, server: McpServerRecord, found: McpListing
    ) -> McpServerRecord | None:
        """The server with what was found pinned; None if it was removed meanwhile."""
        if pinned(server, found, now=self._clock.now()) is server:
            return server
        try:
            async with self._database.transaction(server.tenant) as tx:
                return await self._pinned(tx, server, found)
        except NotFound:
            return None

    async def _pinned(
        self, tx: Transaction, server: McpServerRecord, found: McpListing
    ) -> McpServerRecord:
        """Merge what was found into what is pinned by now. Raises NotFound, StoreUnavailable."""
        for _ in range(_ATTEMPTS):
            after = pinned(server, found, now=self._clock.now())
            if after is server or await tx.pin_mcp_server(after):
                return after
            server = await self._as_it_is(tx, server)
        raise StoreUnavailable("the server's tools are being written by others")

    async def _as_it_is(self, session: Session, asked: McpServerRecord) -> McpServerRecord:
        """The server that was asked, as it is by now. Raises NotFound, also where a namesake is."""
        found = await self.read(session, asked.name)
        if found.reached_by != asked.reached_by:
            raise NotFound("MCP server")
        return found

    def _record(self, caller: Caller, spec: McpServerSpec) -> McpServerRecord:
        return McpServerRecord(
            tenant=caller.tenant,
            name=spec.name,
            transport=spec.transport,
            url=spec.url,
            command=spec.command,
            headers=spec.headers,
            registered=spec.registered,
            profile={
                tool: flags.model_dump(exclude_none=True) for tool, flags in spec.profile.items()
            },
            created_at=self._clock.now(),
        )

    async def _note(self, tx: Transaction, payload: Payload) -> None:
        """Append to the audit log, which serialises changes of the tenant's servers."""
        await tx.append_audit([NewEvent(payload)], now=self._clock.now())


def _patience(server: McpServerRecord) -> float:
    return FRESHEN_S if server.why_not is None else AWAY_S


def _audited(server: McpServerRecord) -> dict[str, JsonValue]:
    """The server without secrets: no headers, and of the URL not what may hold a token."""
    return {
        "name": server.name,
        "transport": server.transport,
        "url": None if server.url is None else server.url.partition("?")[0],
        "command": server.command,
        "registered": server.registered,
        "profile": {tool: dict(flags) for tool, flags in server.profile.items()},
        "tools": {tool.name: tool.definition_sha256 for tool in server.tools if tool.is_listed},
    }
