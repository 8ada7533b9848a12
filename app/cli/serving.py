"""`turngate serve`: one process of the API, with a worker in it unless told not to.

SIGTERM drains: streams end with 1001 and turns are handed over before uvicorn closes what is left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
import uvicorn
import uvloop
from typing_extensions import override

from app.cli.protocols import BoundedHttp, BoundedSocket
from app.cli.signals import heed
from app.main.house import open_house

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import FrameType

    from fastapi import FastAPI

    from app.main.house import House
    from app.settings import Settings

FRAME_BYTES: Final = 64 * 1024
BACKLOG: Final = 2048
# After the drain: streams are closed and turns handed over, so nothing takes long any more.
LAST_REQUESTS_S: Final = 10
# Longer than a client or a proxy keeps an idle connection, so that it is they who close it, and no
# request meets a connection that is just being closed.
KEEP_ALIVE_S: Final = 75

log = structlog.get_logger("turngate.serve")


def serve(
    settings: Settings,
    listener: socket.socket,
    *,
    worker: bool,
    migrate: bool,
    greet: Callable[[], None],
    leash: bool = False,
) -> None:
    """Serve on `listener` until a signal; `greet` is called once requests are taken.

    On the `leash` it also ends when standard input does: whoever started it is gone.
    Raises StoreUnavailable.
    """
    house = partial(open_house, settings, worker=worker, migrate=migrate)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if leash:
            loop = runner.get_loop()
            loop.add_reader(sys.stdin, _follow, loop)
        runner.run(_serve(house, listener, greet))


def _follow(loop: asyncio.AbstractEventLoop) -> None:
    if not os.read(sys.stdin.fileno(), 1):
        loop.remove_reader(sys.stdin)
        signal.raise_signal(signal.SIGTERM)


async def _serve(
    opening: Callable[[], AbstractAsyncContextManager[House]],
    listener: socket.socket,
    greet: Callable[[], None],
) -> None:
    asked = asyncio.Event()
    heed(lambda _: asked.set())
    async with opening() as house:
        server = DrainingServer(server_config(house.app), drain=house.drain, greet=greet)
        heed(lambda number: server.handle_exit(number, None))
        if not asked.is_set():
            await server.serve([listener])


def server_config(app: FastAPI) -> uvicorn.Config:
    """Uvicorn as this service needs it; its logs go where ours go."""
    return uvicorn.Config(
        app,
        http=BoundedHttp,
        ws=BoundedSocket,
        ws_per_message_deflate=False,
        ws_max_size=FRAME_BYTES,
        ws_ping_interval=30,
        ws_ping_timeout=60,
        lifespan="off",
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=LAST_REQUESTS_S,
        access_log=False,
        log_config=None,
        server_header=False,
    )


class DrainingServer(uvicorn.Server):
    """Uvicorn, with the drain of the house before its own shutdown."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        drain: Callable[[], Awaitable[None]],
        greet: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._drain = drain
        self._greet = greet
        self._draining: asyncio.Task[None] | None = None

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        log.info("serve.started")
        self._greet()

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("serve.draining")
        _stop_accepting(self.servers)
        # A group swallows the cancellation of its task, which a second signal brings.
        async with asyncio.TaskGroup() as group:
            self._draining = group.create_task(self._drained())
        await super().shutdown(sockets)
        log.info("serve.stopped")

    async def _drained(self) -> None:
        await self._drain()

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `_serve`: uvicorn would raise them again at the end and die."""
        yield

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal asks for a drain, a second one for an end without it."""
        self.force_exit = self.should_exit
        self.should_exit = True
        if self.force_exit and self._draining is not None:
            self._draining.cancel()


def _stop_accepting(servers: Sequence[asyncio.base_events.Server]) -> None:
    for server in servers:
        server.close()
