"""The kept context of a run: the same bytes, or no run (run-context.md 9.1, 9.3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.engine.json.arguments import sha256_hex
from app.log.envelope import Event, NewEvent, placed
from app.log.runs import StepStarted
from app.policy.taint import Trust
from app.runctx.context import ContextFacts
from app.runctx.memory import RecallReport
from app.service.context.assembly import CannotStart, KeptContext, context_assembled, kept_context

CONTEXT = KeptContext(("<skills_context>é</skills_context>",), 7)
REPORT = RecallReport(
    requested=True, top_k=5, returned=2, kept=1, dropped_by_floor=1, top_score=0.5
)


def event(new: NewEvent, seq: int = 1) -> Event:
    return placed(new, conversation_id="conv_1", seq=seq, at="2026-11-29T12:00:00.000Z")


def assembled(context: KeptContext = CONTEXT, facts: ContextFacts | None = None) -> Event:
    return event(
        context_assembled(
            context,
            facts or ContextFacts(),
            run_id="run_1",
            turn_id="turn_1",
            history_messages=2,
        )
    )


def started() -> Event:
    step = StepStarted(attempt=1, granted=(), tainted=False, native_search=False)
    return event(NewEvent(step, run_id="run_1"), 2)


def test_what_was_kept_is_read_back() -> None:
    assert kept_context([assembled(), started()]) == CONTEXT
    assert kept_context([assembled(KeptContext())]) == KeptContext()
    tainted = replace(CONTEXT, trust=Trust.QUARANTINED_CONTENT)
    assert assembled(tainted).trust is Trust.QUARANTINED_CONTENT
    assert kept_context([assembled(tainted)]) == tainted


def test_a_feature_that_is_off_adds_no_byte() -> None:
    """C164."""
    kept = assembled(KeptContext())
    assert kept.private == b'{"before_run":"run_1","history_messages":2}'
    assert kept.data == {
        "sha256": sha256_hex(kept.private),
        "size_bytes": 43,
        "history_messages": 2,
        "attachments_skipped": [],
        "skills": 0,
        "skills_revision": None,
    }


def test_the_event_tells_of_memory_what_there_is_to_tell() -> None:
    facts = ContextFacts(
        recall=REPORT, tiers=("external",), unfolded_turns=2, caller_memory_bytes=7
    )
    data = assembled(facts=facts).data
    assert (data["tiers"], data["unfolded_turns"]) == (["external"], 2)
    assert (data["caller_memory_bytes"], data["recall"]["kept"]) == (7, 1)
    assert "recall_skipped" not in data
    assert not {"requested", "recall_skipped"} & data["recall"].keys()


def test_the_event_says_why_there_was_no_recall() -> None:
    """C23."""
    skipped = RecallReport(requested=True, recall_skipped="empty_query")
    data = assembled(facts=ContextFacts(recall=skipped)).data
    assert data["recall_skipped"] == "empty_query"
    assert "recall" not in data


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
