"""How often a principal may ask (service.md 1): a minute's worth at once, then at that pace.

Each process counts for itself. What it remembers of a principal is two numbers, and only of those
who asked within the last minute.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from app.service.refusals import Refusal

if TYPE_CHECKING:
    from app.service.caller import Caller
    from app.service.clock import Clock

MINUTE_S: Final = 60.0


class RateLimited(Refusal):
    """The principal asks too often; the next request is taken after `retry_after_s`."""

    code = "rate.limited"

    def __init__(self, per_minute: int, retry_after_s: int) -> None:
        super().__init__(f"a principal may send {per_minute} requests a minute")
        self.retry_after_s = retry_after_s


class Rates:
    """What each principal has left."""

    def __init__(self, clock: Clock, *, per_minute: int) -> None:
        self._clock = clock
        self._per_minute = per_minute
        self._pace_s = MINUTE_S / per_minute
        # When the principal's last request is paid off, if one is paid off every `pace`.
        self._paid_at: dict[tuple[str, str], float] = {}
        self._swept_at = clock.monotonic()

    def count(self, caller: Caller) -> None:
        """Count one request. Raises RateLimited, and then does not count it."""
        now = self._clock.monotonic()
        self._forget(now)
        person = (caller.tenant, caller.principal)
        paid_at = max(now, self._paid_at.get(person, now)) + self._pace_s
        early = paid_at - now - MINUTE_S
        # A rounding error of floats refuses nobody.
        if early > self._pace_s / 1000:
            raise RateLimited(self._per_minute, ceil(early))
        self._paid_at[person] = paid_at

    def _forget(self, now: float) -> None:
        if now - self._swept_at >= MINUTE_S:
            self._swept_at = now
            self._paid_at = {who: at for who, at in self._paid_at.items() if at > now}
