"""Notices are counted by name as they are logged, and nothing else is."""

from __future__ import annotations

import logging

from prometheus_client import CollectorRegistry, generate_latest

from app.api.notices import counted_notices


def logged(*events: object) -> None:
    """Log records as structlog hands them to the standard library."""
    for event in events:
        logging.getLogger("turngate.test").warning(event)


def test_a_notice_is_counted_while_a_house_is_open() -> None:
    registry = CollectorRegistry()
    notice = {"event": "memory.identity_rejected"}
    with counted_notices(registry):
        logged(notice, {"event": "lease.lost"}, "memory.identity_rejected", notice)
    logged(notice)
    told = generate_latest(registry).decode()
    assert 'turngate_notices_total{notice="memory.identity_rejected"} 2.0' in told
    assert 'turngate_notices_total{notice="memory.recovery_dropped"} 0.0' in told
    assert "lease.lost" not in told
