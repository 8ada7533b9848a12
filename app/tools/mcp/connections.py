"""The connections of a process: one for each server of a tenant, made when it is first needed.

Each is held by a task of the block that `running` opens, and ends with it. A connection that is
lost is made anew by whoever needs it next. A call whose connection was lost is sent again only if
that can do no harm; nothing else is ever sent twice.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, assert_never

import structlog

from app.log.servers import McpListing
from app.tools.address import AllowList
from app.tools.http import system_resolve
from app.tools.mcp.reach import GRACE_S, RETRY_S, Web
from app.tools.mcp.results import OUTCOME_UNKNOWN, Lost, NotTaken, Refused, cut, outcome_of
from app.tools.mcp.vetting import vetted
from app.tools.outcomes import TOOL_FAILED, failed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from app.log.servers import McpServerRecord, McpTool
    from app.tools.http import Resolve
    from app.tools.mcp.results import Answered
    from app.tools.mcp.session import Session
    from app.turn.ports import Clock, ToolInvocation, ToolOutcome

    Told = Callable[[str, str, ToolOutcome], None]

DIAL_S: Final = 20.0
CLOSE_S: Final = 5.0
IDLE_S: Final = 300.0
SWEEP_S: Final = 60.0
MAX_CONNECTIONS: Final = 128
NOT_REACHABLE: Final = "its server is not reachable"
DEFINITION_CHANGED: Final = "definition_changed"

log = structlog.get_logger("turngate.mcp")


class Unreachable(Exception):
    """There is no connection; the message says why, in words for people."""


@dataclass(eq=False)
class _Connection:
    """One connection, from the first attempt to its end; `opened` tells how the attempt went."""

    server: McpServerRecord
    opened: asyncio.Future[Session]
    used_ms: int
    calls: int = 0
    is_retired: bool = False
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    listing: asyncio.Lock = field(default_factory=asyncio.Lock)
    listed: dict[str, McpTool] | None = None

    def retire(self) -> None:
        """Let nobody use it any more; it closes when what is under way has come to its end."""
        self.is_retired = True
        if self.calls == 0:
            self.closing.set()


class McpConnections:
    """Reaches the servers of every tenant; `commands` are the operator's, by name."""

    def __init__(
        self,
        clock: Clock,
        *,
        commands: Mapping[str, Sequence[str]],
        allow_hosts: Iterable[str] = (),
        resolve: Resolve = system_resolve,
    ) -> None:
        self._clock = clock
        self._commands = commands
        self._web = Web(allowed=AllowList.of(allow_hosts), resolve=resolve, clock=clock)
        self._held: set[_Connection] = set()
        self._by_server: dict[tuple[str, str], _Connection] = {}
        self._owner: asyncio.TaskGroup | None = None
        self._told: Told = lambda _tenant, _key, _outcome: None

    def on_late(self, told: Told) -> None:
        """Call `told`, from now on, with what a server answers to a call after it was cancelled.

        It gets the tenant, the call's idempotency key, and what the call would have come to.
        """
        self._told = told

    @asynccontextmanager
    async def running(self) -> AsyncIterator[McpConnections]:
        """Own what is opened, for the length of the block."""
        async with asyncio.TaskGroup() as owner:
            self._owner = owner
            sweeping = owner.create_task(self._sweep())
            try:
                yield self
            finally:
                self._owner = None
                sweeping.cancel()
                for connection in self._held:
                    connection.closing.set()

    async def objection(self, server: McpServerRecord) -> tuple[str, str] | None:
        """The member of a registration that can never work here, and why."""
        match server.transport:
            case "stdio":
                if server.command in self._commands:
                    return None
                return "/command", f"TURNGATE_MCP_COMMANDS names no command {server.command!r}"
            case "http":
                refusal = await self._web.refusal(server.url or "")
                return None if refusal is None else ("/url", refusal)
            case _:
                assert_never(server.transport)

    async def look(self, server: McpServerRecord, *, limit_s: float = DIAL_S) -> McpListing:
        """The tools that the server lists now, or why it lists none."""
        try:
            async with asyncio.timeout(limit_s):
                connection, session = await self._open(server)
                listed = await self._listed(connection, session)
        except Unreachable as error:
            return McpListing(why_not=str(error))
        except TimeoutError:
            return McpListing(why_not=f"{NOT_REACHABLE}: no answer within {limit_s:g} s")
        return listed

    async def call(
        self, server: McpServerRecord, tool: McpTool, call: ToolInvocation, *, repeatable: bool
    ) -> ToolOutcome:
        """The outcome of a call of the tool, as long as it is defined as it was when offered.

        A server that is gone has `GRACE_S` to come back, however long the call took until then.
        Cancelling cancels the call.
        """
        gone_since: int | None = None
        was_sent = False
        while True:
            try:
                return await self._attempt(server, tool, call)
            except Unreachable as error:
                why = str(error)
            except NotTaken:
                why = NOT_REACHABLE
            except Lost:
                was_sent = True
                why = NOT_REACHABLE
            if gone_since is None:
                gone_since = self._clock.now_ms()
            is_given_up = self._clock.now_ms() - gone_since >= GRACE_S * 1000
            if is_given_up or (was_sent and not repeatable):
                return _unknown(tool) if was_sent else failed(TOOL_FAILED, f"nothing ran: {why}")
            await self._clock.sleep(RETRY_S)

    async def _attempt(
        self, server: McpServerRecord, tool: McpTool, call: ToolInvocation
    ) -> ToolOutcome:
        connection, session = await self._open(server)
        connection.calls += 1
        try:
            if connection.listed is None:
                await self._listed(connection, session)
            now = (connection.listed or {}).get(tool.name)
            if now is None or not now.is_defined_as(tool):
                return failed(
                    DEFINITION_CHANGED, f"nothing ran: the server has changed {tool.name} since"
                )
            answer = await session.call(tool.name, call.args, key=call.idempotency_key)
        except (Lost, NotTaken):
            connection.retire()
            raise
        except Refused as error:
            return failed(TOOL_FAILED, f"the server refused the call: {cut(str(error))}")
        finally:
            connection.calls -= 1
            connection.used_ms = self._clock.now_ms()
            if connection.is_retired:
                connection.retire()
        return outcome_of(answer)

    async def _listed(self, connection: _Connection, session: Session) -> McpListing:
        """Ask for the tools, and keep what they are defined as. Raises Unreachable."""
        async with connection.listing:
            try:
                declared = await session.tools()
            except (Lost, NotTaken) as error:
                connection.retire()
                raise Unreachable(NOT_REACHABLE) from error
            except Refused as error:
                raise Unreachable(f"it does not list its tools: {cut(str(error))}") from error
            found = await asyncio.to_thread(vetted, connection.server.name, declared)
            connection.listed = {tool.name: tool for tool in found.tools}
            return found

    async def _open(self, server: McpServerRecord) -> tuple[_Connection, Session]:
        """The connection to a server, waiting for it if need be. Raises Unreachable."""
        key = (server.tenant, server.name)
        connection = self._by_server.get(key)
        if connection is not None and connection.server.reached_by != server.reached_by:
            connection.retire()
        if connection is None or connection.is_retired:
            connection = self._start(server)
        connection.used_ms = self._clock.now_ms()
        # Whoever stops waiting leaves the attempt to those who wait beside him.
        return connection, await asyncio.shield(connection.opened)

    def _start(self, server: McpServerRecord) -> _Connection:
        if self._owner is None:
            raise Unreachable("this process does not reach servers")
        if len(self._held) >= MAX_CONNECTIONS and not self._close_unused():
            raise Unreachable("too many servers are in use at once")
        opened: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        connection = _Connection(server, opened, self._clock.now_ms())
        self._by_server[server.tenant, server.name] = connection
        self._held.add(connection)
        self._owner.create_task(self._hold(connection))
        return connection

    async def _hold(self, connection: _Connection) -> None:
        """The root of a connection's task: open it, keep it until it is to close, close it."""
        why = NOT_REACHABLE
        try:
            async with _within(await self._conversation(connection), DIAL_S) as session:
                connection.opened.set_result(session)
                await connection.closing.wait()
        except Unreachable as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - the root of a task: whatever a server breaks
            log.info("mcp.lost", server=connection.server.name, kind=type(error).__name__)
        finally:
            connection.is_retired = True
            self._held.discard(connection)
            if not connection.opened.done():
                connection.opened.set_exception(Unreachable(why))
                connection.opened.exception()  # Perhaps nobody waits any more.

    async def _conversation(self, connection: _Connection) -> AbstractAsyncContextManager[Session]:
        server = connection.server
        if (objection := await self.objection(server)) is not None:
            raise Unreachable(objection[1])
        conversation = await asyncio.to_thread(_library)
        command = self._commands.get(server.command or "", ())

        def late(key: str, answer: Answered) -> None:
            self._told(server.tenant, key, outcome_of(answer))

        return conversation(
            server, command=command, web=self._web, ended=connection.retire, late=late
        )

    async def _sweep(self) -> None:
        """Close what nobody has used for a while."""
        while True:
            await self._clock.sleep(SWEEP_S)
            idle_since = self._clock.now_ms() - IDLE_S * 1000
            for connection in self._held:
                if connection.calls == 0 and connection.used_ms < idle_since:
                    connection.retire()
            retired = [key for key, each in self._by_server.items() if each.is_retired]
            for key in retired:
                del self._by_server[key]

    def _close_unused(self) -> bool:
        """Make room by closing what was not used for longest; False if everything is in use."""
        unused = [each for each in self._held if each.calls == 0]
        if unused:
            min(unused, key=lambda each: each.used_ms).retire()
        return bool(unused)


@asynccontextmanager
async def _within(
    conversation: AbstractAsyncContextManager[Session], limit_s: float
) -> AsyncIterator[Session]:
    """The conversation, if it opens in time, and closes in time. Raises TimeoutError."""
    async with asyncio.timeout(limit_s) as limit, conversation as session:
        limit.reschedule(None)
        try:
            yield session
        finally:
            limit.reschedule(asyncio.get_running_loop().time() + CLOSE_S)


def _library() -> Callable[..., AbstractAsyncContextManager[Session]]:
    from app.tools.mcp.session import conversation  # noqa: PLC0415 - longer than all the rest

    return conversation


def _unknown(tool: McpTool) -> ToolOutcome:
    return failed(
        OUTCOME_UNKNOWN,
        f"the connection was lost while {tool.name} ran; its effect may have happened",
    )
