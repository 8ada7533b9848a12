"""The clock and the mint: the only place of the house that reads time and chance."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol

from app.ids import RANDOM_BYTES, make_id


class Clock(Protocol):
    """Time and chance, as use cases and driver take them; tests step one of their own."""

    def now(self) -> datetime:
        """The present, aware, in UTC."""
        ...

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    def now_s(self) -> int:
        """Whole seconds since 1970, as they stand in what is signed."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1)."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def mint(self, prefix: str) -> str:
        """A new id with that prefix."""
        ...

    def nonce(self) -> bytes:
        """Sixteen unpredictable bytes."""
        ...


class SystemClock:
    """The machine's clock. Ids of one process rise strictly, so that lists keep their order."""

    def __init__(self) -> None:
        self._last_ms = 0
        self._count = 0

    def now(self) -> datetime:
        """The present, in UTC."""
        return datetime.now(UTC)

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def now_s(self) -> int:
        """Whole seconds since 1970."""
        return self.now_ms() // 1000

    def monotonic(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def jitter(self) -> float:
        """A number in [0, 1); it spaces retries and keeps no secret."""
        return random.random()  # noqa: S311 - jitter is no secret

    async def sleep(self, seconds: float) -> None:
        """Wait; cancelling is safe."""
        await asyncio.sleep(seconds)

    def mint(self, prefix: str) -> str:
        """A new id; within one millisecond the twelve bits after the version count up."""
        now = self.now_ms()
        if now > self._last_ms:
            self._last_ms, self._count = now, 0
        elif self._count < 0xFFF:
            self._count += 1
        else:
            self._last_ms, self._count = self._last_ms + 1, 0
        chance = self._count.to_bytes(2, "big") + secrets.token_bytes(RANDOM_BYTES - 2)
        return make_id(prefix, unix_ms=self._last_ms, chance=chance)

    def nonce(self) -> bytes:
        """Sixteen bytes from the system's source."""
        return secrets.token_bytes(16)
