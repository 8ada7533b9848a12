"""The signals that ask a process to end, heard by its event loop."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def heed(told: Callable[[int], object]) -> None:
    """Call `told` alone, from now on, with the number of each signal that asks for the end."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, told, number)
