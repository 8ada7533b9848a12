"""The kept context of a run: the same bytes, or no run (run-context.md 9.1, 9.3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.log.envelope import Event, NewEvent, placed
from app.log.runs import StepStarted
from app.service.run_context import CannotStart, KeptContext, context_assembled, kept_context

CONTEXT = KeptContext(("<skills_context>é</skills_context>",), 7, 1, is_new=True)


def event(new: NewEvent, seq: int = 1) -> Event:
    return placed(new, conversation_id="conv_1", seq=seq, at="2026-11-29T12:00:00.000Z")


def assembled(context: KeptContext = CONTEXT) -> Event:
    return event(context_assembled(context, run_id="run_1", turn_id="turn_1", history_messages=2))


def started() -> Event:
    step = StepStarted(attempt=1, granted=(), tainted=False, native_search=False)
    return event(NewEvent(step, run_id="run_1"), 2)


def test_what_was_kept_is_read_back() -> None:
    assert kept_context([assembled(), started()]) == KeptContext(CONTEXT.blocks, 7)
    assert kept_context([assembled(KeptContext())]) == KeptContext()


def test_a_feature_that_is_off_adds_no_byte() -> None:
    """C164."""
    kept = assembled(KeptContext(is_new=True))
    assert kept.private == b'{"before_run":"run_1","history_messages":2}'
    assert (kept.data["size_bytes"], kept.data["skills_revision"]) == (43, None)


def test_a_run_that_has_not_begun_has_no_context() -> None:
    assert kept_context([]) is None


def test_a_context_that_is_missing_or_altered_is_refused() -> None:
    """C163."""
    altered = (assembled().private or b"").replace(b"skills_context", b"skills_comtext")
    broken = [
        [started()],
        [replace(assembled(), private=None)],
        [replace(assembled(), private=altered)],
    ]
    for events in broken:
        with pytest.raises(CannotStart) as caught:
            kept_context(events)
        assert caught.value.code == "runtime_fetch_error"
