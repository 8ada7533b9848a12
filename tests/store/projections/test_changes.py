"""Rounds of changes: what may be written at once, what must wait, what becomes one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.log.envelope import placed
from app.store.projections.changes import rounds
from app.store.projections.fact import Fact
from app.store.projections.rules import project
from tests.support.database.postgres import (
    approval_requested,
    cancelled,
    completed,
    decided,
    paused,
    question_answered,
    question_asked,
    resolved,
    run_created,
    said,
    started,
    step_completed,
    tool_completed,
    tool_started,
)

if TYPE_CHECKING:
    from app.log.envelope import NewEvent
    from app.store.projections.changes import Change

RUN = "run_1"
AT = "2026-11-29T12:00:00.000Z"


def changes_of(*events: NewEvent) -> list[Change]:
    return [
        change
        for seq, new in enumerate(events, start=1)
        for change in project(
            Fact(placed(new, conversation_id="c", seq=seq, at=AT), new.payload, AT, False)
        )
    ]


def kinds_of(*events: NewEvent) -> list[list[str]]:
    """The names of the statements, round by round."""
    return [
        sorted(kind.name for kind, changes in round_.items() for _ in changes)
        for round_ in rounds(changes_of(*events))
    ]


def test_streamed_text_changes_nothing() -> None:
    assert kinds_of(said(RUN, "a"), said(RUN, "b")) == [[]]


def test_the_end_of_a_run_is_one_change() -> None:
    assert kinds_of(step_completed(RUN), completed(RUN)) == [["run_changed"]]


def test_a_pause_with_its_approvals_and_questions_is_one_round() -> None:
    events = [
        approval_requested("appr_1", RUN, "c"),
        approval_requested("appr_2", RUN, "c"),
        question_asked("ques_1", RUN),
        paused(RUN, "appr_1", "appr_2"),
    ]
    assert kinds_of(*events) == [
        ["approval_requested", "approval_requested", "question_asked", "run_changed"]
    ]


def test_a_decision_with_all_that_it_settles_and_gives_is_one_round() -> None:
    once, session = decided("appr_1", RUN), decided("appr_1", RUN, scope="session")
    approved = resolved("appr_1", RUN, "approved")
    assert kinds_of(once, approved) == [["approval_changed", "decided", "pause_settled"]]
    assert kinds_of(session, approved) == [
        ["approval_changed", "decided", "pause_settled", "session_given"]
    ]


def test_what_takes_the_place_of_an_approval_follows_what_it_gave() -> None:
    events = [
        decided("appr_1", RUN, scope="session"),
        resolved("appr_1", RUN, "approved"),
        resolved("appr_1", RUN, "superseded", by="superseded"),
    ]
    assert kinds_of(*events) == [
        ["approval_changed", "decided", "pause_settled", "session_given"],
        ["approval_changed"],
    ]


def test_two_answers_settle_a_pause_once() -> None:
    events = [question_answered("ques_1", RUN), question_answered("ques_2", RUN)]
    assert kinds_of(*events) == [["question_answered", "question_answered"], ["pause_settled"]]


def test_an_approval_that_follows_is_waited_for_too() -> None:
    events = [
        resolved("appr_1", RUN, "superseded", by="superseded"),
        approval_requested("appr_2", RUN, "c"),
        question_answered("ques_1", RUN),
    ]
    assert kinds_of(*events) == [
        ["approval_changed", "approval_requested", "pause_settled", "question_answered"],
        ["pause_settled"],
    ]


def test_a_cancel_comes_after_the_settling_of_its_approvals() -> None:
    assert kinds_of(resolved("appr_1", RUN, "cancelled", by="cancel"), cancelled(RUN)) == [
        ["approval_changed", "pause_settled"],
        ["run_changed"],
    ]


def test_a_run_is_there_before_it_changes() -> None:
    assert kinds_of(run_created(RUN), started(RUN), approval_requested("a", RUN, "c")) == [
        ["run_created"],
        ["approval_requested", "run_changed"],
    ]


def test_an_execution_that_starts_and_settles_is_inserted_settled() -> None:
    (round_,) = rounds(changes_of(tool_started(RUN, "call"), tool_completed(RUN, "call")))
    ((change,),) = round_.values()
    assert change.row["settled"] is True


def test_an_execution_that_starts_again_is_written_after_it_settled() -> None:
    events = [tool_completed(RUN, "call"), tool_started(RUN, "call", attempt=2)]
    assert kinds_of(*events) == [["execution_settled"], ["execution_started"]]


def test_usage_adds_up_until_a_total_is_given() -> None:
    (round_,) = rounds(changes_of(step_completed(RUN, 5), step_completed(RUN, 7)))
    ((change,),) = round_.values()
    assert (change.row["input_tokens"], change.row["usage_is_total"]) == (12, False)
    (round_,) = rounds(
        changes_of(step_completed(RUN, 5), completed(RUN, tokens=100, steps=3), step_completed(RUN))
    )
    ((change,),) = round_.values()
    assert (change.row["input_tokens"], change.row["usage_is_total"]) == (100, True)
    assert (change.row["steps"], change.row["steps_added"]) == (3, 0)


def test_a_second_edit_takes_the_place_of_the_first() -> None:
    edited = decided("appr_1", RUN, override_args='{"b":2}')
    plain = decided("appr_1", RUN, approver="bob")
    (round_,) = rounds(changes_of(edited, plain))
    (change,) = next(changes for kind, changes in round_.items() if kind.name == "approval_changed")
    assert change.row["override_args"] is None
