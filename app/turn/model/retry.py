"""How long to wait before dialling a provider again, if at all (turn.md 10). Pure arithmetic."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

from app.turn.limits import (
    MAX_RETRIES,
    RETRY_AFTER_LIMIT_S,
    RETRY_BASE_S,
    RETRY_CAP_S,
    RETRY_MAX_EXPONENT,
)
from app.turn.ports import FailureKind

if TYPE_CHECKING:
    from app.turn.ports import ProviderError

RETRYABLE: Final = frozenset({FailureKind.RATE_LIMIT, FailureKind.TIMEOUT, FailureKind.UNAVAILABLE})


def backoff_s(attempt: int, jitter: float) -> float:
    """The wait before retry `attempt` (from 0), with `jitter` in [0, 1): "equal jitter"."""
    exponential = RETRY_BASE_S * 2.0 ** min(attempt, RETRY_MAX_EXPONENT)
    return min(exponential, RETRY_CAP_S) * (0.5 + 0.5 * jitter)


def retry_wait_s(error: ProviderError, attempt: int, jitter: float) -> float | None:
    """The wait before the next dial, or None when there is to be none.

    The server's wish wins, above the cap too; one that is too long ends the retries.
    """
    if error.kind not in RETRYABLE or attempt >= MAX_RETRIES:
        return None
    wish = error.retry_after
    if wish is None or not isfinite(wish) or wish < 0:
        return backoff_s(attempt, jitter)
    return None if wish > RETRY_AFTER_LIMIT_S else wish
