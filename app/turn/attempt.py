"""The one place where whatever a tool or a dispatch policy raises is caught.

They are code of others: an error of theirs becomes a result or a refusal, never the end of a run.
Cancellation is no error and passes through, and so does the loss of the lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import structlog

from app.errors import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Raised:
    """The attempt raised. What it raised may hold anybody's data, so only its type is kept."""

    kind: str


async def attempt(what: Awaitable[T], *, doing: str, call_id: str) -> T | Raised:
    """The outcome of `what`, or the fact that it raised."""
    try:
        return await what
    except LeaseLost:
        raise
    except Exception as error:  # noqa: BLE001 - foreign code; see the module's docstring
        _log.warning("call.raised", doing=doing, call_id=call_id, error=type(error).__name__)
        return Raised(type(error).__name__)
