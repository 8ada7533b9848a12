"""A clock that goes on only when a test steps it, with ids that count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

from app.ids import make_id

# Tests share one database, so their ids count on from clock to clock.
_numbers = count(1)

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


class SteppedClock:
    """Fulfils `app.service.clock.Clock`. It starts at noon of 29 November 2026."""

    def __init__(self, start: datetime = NOON) -> None:
        self._start = start
        self._passed = 0.0

    def step(self, seconds: float) -> None:
        """Let so much time pass."""
        self._passed += seconds

    def restart(self) -> None:
        """Go back to the start, for the next test."""
        self._passed = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed)

    def now_ms(self) -> int:
        return int(self.now().timestamp() * 1000)

    def now_s(self) -> int:
        return int(self.now().timestamp())

    def monotonic(self) -> float:
        return self._passed

    def jitter(self) -> float:
        return 0.5

    async def sleep(self, seconds: float) -> None:
        self.step(seconds)

    def mint(self, prefix: str) -> str:
        return make_id(prefix, unix_ms=self.now_ms(), chance=next(_numbers).to_bytes(10, "big"))

    def nonce(self) -> bytes:
        return next(_numbers).to_bytes(16, "big")
