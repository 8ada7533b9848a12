"""`turngate demo`: the main job, played through the public API as a client would.

A server is started as a process of its own; everything after that is HTTP, one WebSocket a run,
and signatures made here. Nothing is left running unless it is asked for.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from app.cli.demo.place import undisturbed
from app.cli.demo.receiver import Receiver
from app.cli.demo.screen import Screen
from app.cli.demo.server import served
from app.cli.greeting import shell_line
from app.service.clock import SystemClock

if TYPE_CHECKING:
    from app.settings import Settings


def demo(settings: Settings, *, keep: bool) -> None:
    """Play the demo. Raises DemoFailed and StoreUnavailable."""
    clock = SystemClock()
    screen = Screen(clock)
    # `kill` is to leave as little behind as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with (
        undisturbed(settings) as placed,
        Receiver() as receiver,
        served(placed, allow_host=receiver.host, keep=keep, first=placed == settings) as server,
    ):
        if placed != settings:
            place = settings.data_dir
            screen.said(
                f"another process of turngate works in {place}: the demo takes a new folder"
            )
        with screen.waiting("starting Turngate"):
            # The client is loaded while the server starts: there are two cores.
            from app.cli.demo.play import Play, newcomer  # noqa: PLC0415 - see above

            address = server.await_ready(clock)
        screen.said(f"Turngate serves on {address}, its data is in {placed.data_dir}")
        client = newcomer(placed, address, clock)
        Play(placed, client, screen, receiver).all(clock)
        if keep:
            screen.heading("It goes on")
            screen.said(f"API description: {address}/openapi.json")
            screen.said(f"Stop it: kill {server.process.pid}")
            screen.said(f"For another shell, as {client.person.sub}:")
            print(shell_line(address, client.person.token))
        else:
            screen.heading("And now")
            screen.said("make serve, and the calls of README.md; to sign them: docs/approving.md")
