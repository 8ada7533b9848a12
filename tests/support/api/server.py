"""The application behind a real uvicorn on a loopback port, and clients that keep its rules."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from app.api.app import build_app
from app.cli.serving import DrainingServer, server_config
from app.cli.sockets import base_address, listening_socket
from app.service.access.development import TokenOrder
from app.service.access.rates import Rates
from app.service.streams.hold import HoldGate
from app.service.streams.subscriptions import Subscriptions
from app.service.streams.use_cases import StreamLimits, Streams
from tests.support.api.world import EVERYDAY, ISSUER, edge_of
from tests.support.database.postgres import Talk
from tests.support.stepped_clock import SteppedClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from websockets.asyncio.client import ClientConnection

    from app.api.edge import Edge
    from app.store.open import Store

PATIENCE_S = 20.0
FRAME_BYTES = 256 * 1024

Frame = dict[str, Any]


@dataclass
class Served:
    """A listening application, its parts, and the people of one tenant."""

    address: str
    store: Store
    edge: Edge
    holds: HoldGate
    clock: SteppedClock
    tenant: str

    def token(
        self,
        sub: str = "alice",
        *,
        scopes: tuple[str, ...] = EVERYDAY,
        roles: tuple[str, ...] = (),
        tenant: str | None = None,
        ttl_s: int = 3600,
    ) -> str:
        """An access token of the test's own tenant, unless another is named."""
        order = TokenOrder(tenant or self.tenant, sub, scopes, roles, ttl_s)
        return ISSUER.token(order, audience="turngate", clock=self.clock)

    async def talk(self) -> Talk:
        """A new conversation of Alice's."""
        return await Talk(self.store, self.tenant).open()

    async def somebody_waits_for(self, talk: Talk) -> None:
        """Returns once a request waits for the conversation to move."""
        waiting = self.edge.event_log._wakeups._waiting
        while talk.id not in waiting:  # noqa: ASYNC110 - nobody tells that they begin to wait
            await asyncio.sleep(0)

    def http(self, token: str | None = None, **headers: str) -> httpx.AsyncClient:
        """A client of Alice's, or of whoever's the token is."""
        all_headers = {"Authorization": f"Bearer {token or self.token()}", **headers}
        return httpx.AsyncClient(
            base_url=self.address, headers=all_headers, trust_env=False, timeout=PATIENCE_S
        )

    @asynccontextmanager
    async def stream(
        self,
        ident: str,
        *,
        token: str | None = None,
        subscribe: dict[str, Any] | None = None,
        query: str = "",
        **more: Any,
    ) -> AsyncIterator[Client]:
        """A socket on a run or conversation, by its id; it subscribes unless told `{}`.

        The token goes into the first frame; "" sends none. `more` goes to websockets.
        """
        noun = "runs" if ident.startswith("run_") else "conversations"
        url = f"{self.address}/v1/{noun}/{ident}/stream{query}".replace("http", "ws", 1)
        options: dict[str, Any] = {
            "subprotocols": ["turngate.v1"],
            "compression": None,
            "proxy": None,
            "max_size": None,
        }
        wanted = {"after": 0} if subscribe is None else subscribe
        async with connect(url, **(options | more)) as connection:
            client = Client(connection, had=wanted.get("after", 0), is_run=noun == "runs")
            # A refusal may come first; whoever expects one hears it.
            with suppress(ConnectionClosed):
                if token != "":
                    await client.say("auth", token=token or self.token())
                if wanted:
                    await client.say("subscribe", **wanted)
            yield client


@dataclass
class Client:
    """One socket; it checks what every client may rely on, and keeps what it was sent."""

    connection: ClientConnection
    had: int
    is_run: bool
    frames: list[Frame] = field(default_factory=list)
    has_begun: bool = False

    @property
    def seqs(self) -> list[int]:
        return [frame["seq"] for frame in self.frames if frame["type"] == "event"]

    @property
    def kinds(self) -> list[str]:
        return [frame["type"] for frame in self.frames]

    async def say(self, kind: str, **members: Any) -> None:
        await self.send(json.dumps({"type": kind, **members}))

    async def send(self, message: str | bytes) -> None:
        await self.connection.send(message)

    async def hear(self) -> Frame:
        """The next frame. Raises ConnectionClosed."""
        async with asyncio.timeout(PATIENCE_S):
            message = await self.connection.recv()
        assert isinstance(message, str)
        assert len(message.encode()) <= FRAME_BYTES
        frame: Frame = json.loads(message)
        self._check(frame)
        self.frames.append(frame)
        return frame

    async def until(self, kind: str) -> Frame:
        """The next frame of a type, or event of a type."""
        while True:
            frame = await self.hear()
            if kind in (frame["type"], frame.get("event", {}).get("type")):
                return frame

    async def closed(self) -> int:
        """Hear everything up to the close; its code."""
        try:
            while True:
                await self.hear()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006

    async def refused(self) -> tuple[int, str]:
        """The close code and the code of the error frame before it."""
        code = await self.closed()
        assert self.frames, f"closed with {code} without a word"
        assert self.frames[-1]["type"] == "error", self.frames[-1]
        error: str = self.frames[-1]["code"]
        return code, error

    def _check(self, frame: Frame) -> None:
        kind = frame["type"]
        assert self.has_begun or kind in ("hello", "error", "pong"), f"{kind} before hello"
        self.has_begun = self.has_begun or kind == "hello"
        if kind == "event":
            assert frame["prev"] == self.had, f"prev {frame['prev']}, had {self.had}"
            assert frame["seq"] == frame["event"]["seq"]
            assert self.is_run or frame["seq"] == self.had + 1
            assert frame["seq"] > self.had
            self.had = frame["seq"]


class Server:
    """Uvicorn as the command starts it."""

    def __init__(self, edge: Edge) -> None:
        self._up = asyncio.Event()
        self._uvicorn = DrainingServer(
            server_config(build_app(edge)), drain=edge.streams.drain, greet=self._up.set
        )
        self._listener = listening_socket("127.0.0.1", 0)
        self.address = base_address("127.0.0.1", self._listener.getsockname()[1])

    async def __aenter__(self) -> Self:
        self._tasks = asyncio.TaskGroup()
        await self._tasks.__aenter__()
        self._tasks.create_task(self._uvicorn.serve([self._listener]))
        await self._up.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._uvicorn.should_exit = True
        await self._tasks.__aexit__(None, None, None)
        self._listener.close()


@asynccontextmanager
async def served(
    store: Store, tenant: str, *, limits: StreamLimits | None = None, per_minute: int = 0
) -> AsyncIterator[Served]:
    """The application on a port of its own, for the length of the block; nobody drives runs.

    A principal may send `per_minute` requests; 0 is no limit.
    """
    clock = SteppedClock()
    subscriptions, holds = Subscriptions(store.database), HoldGate(clock)
    subscriptions.listen(store.signals)
    holds.listen(store.signals)
    streams = Streams(
        database=store.database,
        subscriptions=subscriptions,
        holds=holds,
        limits=limits or StreamLimits(20, 10),
    )
    rates = Rates(clock, per_minute=per_minute) if per_minute else None
    edge = replace(edge_of(store, clock), streams=streams, rates=rates)
    async with Server(edge) as server:
        yield Served(server.address, store, edge, holds, clock, tenant)
