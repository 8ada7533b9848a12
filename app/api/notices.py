"""Notices: records of the log that are counted as well, by their names (run-context.md 2).

Whoever has something to notice writes a record, and knows nothing of counters. While a house is
open, those of the closed list below are counted on their way to the log.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from prometheus_client import Counter
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry

NOTICES: Final = frozenset(
    {
        "artifact.identity_rejected",
        "history.compaction_failed",
        "memory.health_changed",
        "memory.identity_rejected",
        "memory.recovery_dropped",
        "skill.identity_rejected",
        "skill.pack_overwrite_refused",
    }
)


@contextmanager
def counted_notices(registry: CollectorRegistry) -> Iterator[None]:
    """Count the notices that are logged until the block ends."""
    counter = Counter(
        "turngate_notices", "Notices in the log, by name", ["notice"], registry=registry
    )
    for name in sorted(NOTICES):
        counter.labels(name)
    handler, root = _Counting(counter), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


class _Counting(logging.Handler):
    """Counts records of structlog, whose message is still the event with its fields."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter

    @override
    def emit(self, record: logging.LogRecord) -> None:
        name = record.msg.get("event") if isinstance(record.msg, dict) else None
        if name in NOTICES:
            self._counter.labels(name).inc()
