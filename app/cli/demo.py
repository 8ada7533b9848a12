"""`turngate demo`: the main job, played through the public API as a client would.

A server is started as a process of its own; everything after that is HTTP, one WebSocket a run,
and signatures made here. Nothing is left running unless it is asked for.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from app.cli.demo_receiver import Receiver
from app.cli.demo_screen import Screen
from app.cli.demo_server import served
from app.service.clock import SystemClock
from app.store.embedded import is_used

if TYPE_CHECKING:
    from app.settings import Settings


def demo(settings: Settings, *, keep: bool) -> None:
    """Play the demo. Raises DemoFailed and StoreUnavailable."""
    clock = SystemClock()
    screen = Screen(clock)
    settings = _undisturbed(settings, screen)
    # `kill` is to leave as little behind as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with (
        Receiver() as receiver,
        served(settings, allow_host=receiver.host, keep=keep) as server,
    ):
        with screen.waiting("starting Turngate"):
            # The client is loaded while the server starts: there are two cores.
            from app.cli.demo_play import Play, newcomer  # noqa: PLC0415 - see above

            server.await_ready(clock)
        screen.said(f"Turngate serves on {server.address}, its data is in {settings.data_dir}")
        client = newcomer(settings, server.address, clock)
        Play(settings, client, screen, receiver).all(clock)
        if keep:
            screen.heading("It goes on")
            screen.said(f"API description: {server.address}/openapi.json")
            screen.said(f"Stop it: kill {server.process.pid}    A token for {client.person.sub}:")
            print(client.person.token)


def _undisturbed(settings: Settings, screen: Screen) -> Settings:
    """Settings with a place of the demo's own, if somebody else's worker might take its runs."""
    if settings.database_url is not None or not is_used(settings.data_dir):
        return settings
    screen.said(f"another process of turngate works in {settings.data_dir}, so the demo does not")
    return settings.model_copy(update={"data_dir": settings.data_dir / "demo"})
