"""How often a principal may ask (service.md 1): a minute's worth at once, then at that pace.

Requests count, and so does what a client asks for on any of its sockets. Each process counts for
itself. What it remembers of a principal is one number, of those who asked within the last minute,
and of no more than `PRINCIPALS`: then whoever asked longest ago is forgotten, and starts afresh.

The library `limits` would do the sum as well, but its memory storage (of 5.8) reads the clock
itself, starts a thread to clear up as soon as it is made and is bounded by nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from math import ceil
from typing import TYPE_CHECKING, Final

from app.service.refusals import Refusal

if TYPE_CHECKING:
    from app.service.caller import Caller
    from app.service.clock import Clock

MINUTE_S: Final = 60.0
PRINCIPALS: Final = 50_000


class RateLimited(Refusal):
    """The principal asks too often; the next request is taken after `retry_after_s`."""

    code = "rate.limited"

    def __init__(self, per_minute: int, retry_after_s: int) -> None:
        super().__init__(f"a principal may send {per_minute} requests a minute")
        self.retry_after_s = retry_after_s


class Rates:
    """What each principal has left."""

    def __init__(self, clock: Clock, *, per_minute: int, principals: int = PRINCIPALS) -> None:
        self._clock = clock
        self._per_minute = per_minute
        self._pace_s = MINUTE_S / per_minute
        self._principals = principals
        # When the principal's last request is paid off, if one is paid off every `pace`; whoever
        # asked last is at the end.
        self._paid_at: OrderedDict[tuple[str, str], float] = OrderedDict()

    def count(self, caller: Caller) -> None:
        """Count one request. Raises RateLimited, and then does not count it."""
        now = self._clock.monotonic()
        person = (caller.tenant, caller.principal)
        paid_at = max(now, self._paid_at.get(person, now)) + self._pace_s
        early = paid_at - now - MINUTE_S
        # A rounding error of floats refuses nobody.
        if early > self._pace_s / 1000:
            raise RateLimited(self._per_minute, ceil(early))
        self._paid_at[person] = paid_at
        self._paid_at.move_to_end(person)
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Drop those in front who owe nothing, and as many more as the bound wants."""
        while len(self._paid_at) > self._principals or next(iter(self._paid_at.values())) <= now:
            self._paid_at.popitem(last=False)
