"""What the fold of a run says of its open calls: asked, waiting, started, and with which notes."""

from __future__ import annotations

from app.policy.capability import Capability
from app.turn.options import ApprovalOverride
from app.turn.transcript import CallMark, LoggedCall, Note
from tests.service.replay.folding import decision, noted, paused_log, stands, with_batch
from tests.support.log.logbook import tool_call


async def test_a_request_marks_its_call_and_names_itself() -> None:
    log, (_, second) = paused_log()
    (call,) = (await stands(log)).transcript().open_calls
    assert call == LoggedCall(
        call_id=second,
        request_id="b",
        tool="http_post",
        position=1,
        turn_id="turn_1",
        step=1,
        mark=CallMark.ASKED,
        approval_id="appr_1",
    )


async def test_open_requests_are_those_of_calls_without_a_result() -> None:
    log, (first, second) = with_batch()
    log.asked("appr_1", first)
    log.asked("appr_2", second)
    log.settled(first)
    assert (await stands(log)).requests() == {second: "appr_2"}


async def test_a_start_uses_its_decision_up() -> None:
    """F19, I2: what started is not started again by the decision that let it start."""
    log, (first, _) = with_batch()
    log.asked("appr_1", first)
    log.resolved("appr_1", first, "approved")
    log.tool_started(first)
    state = await stands(log, {"appr_1": decision(covered=frozenset({Capability.LOCAL_WRITE}))})
    call = state.transcript().open_calls[0]
    assert (call.mark, call.approval_id, call.attempts) == (CallMark.STARTED, None, 1)
    assert call.covered == {Capability.LOCAL_WRITE}
    assert call.is_ordered
    assert state.requests() == {}


async def test_a_start_that_nobody_decided_on_was_ordered_by_nobody() -> None:
    log, (first, _) = with_batch()
    log.tool_started(first)
    call = (await stands(log)).transcript().open_calls[0]
    assert (call.mark, call.is_ordered) == (CallMark.STARTED, False)


async def test_a_started_call_remembers_what_ran() -> None:
    log, (first, _) = with_batch()
    log.asked("appr_1", first)
    log.tool_started(first)
    edited = decision(override=ApprovalOverride('{"n":1}', ""), sandbox_mode="relaxed")
    call = (await stands(log, {"appr_1": edited})).transcript().open_calls[0]
    assert (call.started_args, call.sandbox_mode) == ('{"n":1}', "relaxed")


async def test_a_started_call_that_is_asked_again_stays_started() -> None:
    """T136: the new request is about the re-run, and its answer is used by the next start."""
    log, (first, _) = with_batch()
    log.tool_started(first)
    log.asked("appr_2", first)
    call = (await stands(log)).transcript().open_calls[0]
    assert (call.mark, call.approval_id) == (CallMark.STARTED, "appr_2")


async def test_a_superseded_request_is_forgotten_and_a_start_is_not() -> None:
    log, (first, second) = with_batch()
    log.tool_started(first)
    for approval_id, call_id in (("appr_1", first), ("appr_2", second)):
        log.asked(approval_id, call_id)
        log.resolved(approval_id, call_id, "superseded", "superseded")
    marks = [(c.mark, c.approval_id) for c in (await stands(log)).transcript().open_calls]
    assert marks == [(CallMark.STARTED, None), (CallMark.WAITING, None)]


async def test_a_late_word_on_a_superseded_request_says_nothing_of_the_new_one() -> None:
    log, (first, _) = with_batch()
    log.asked("appr_1", first)
    log.asked("appr_2", first)
    log.resolved("appr_1", first, "superseded", "superseded")
    assert (await stands(log)).transcript().open_calls[0].approval_id == "appr_2"


async def test_f32_a_request_that_a_session_answered_need_not_be_answered_again() -> None:
    log, (first, _) = with_batch()
    log.asked("appr_1", first)
    log.resolved("appr_1", first, "approved", "session")
    call = (await stands(log)).transcript().open_calls[0]
    assert (call.mark, call.approval_id) == (CallMark.ASKED, None)


async def test_a_note_stands_behind_the_results_of_its_batch() -> None:
    """T62: prompt, reply, results, note."""
    log, (first, second) = with_batch()
    log.asked("appr_1", first)
    log.tool_started(first)
    log.completed(first)
    log.completed(second)
    state = await stands(log, {"appr_1": noted("mind the gap")})
    assert state.transcript().notes == (Note(after_messages=3, text="mind the gap"),)


async def test_the_note_of_a_denial_stands_there_too_and_that_of_a_refused_call_nowhere() -> None:
    log, (first, second) = with_batch()
    log.asked("appr_1", first)
    log.asked("appr_2", second)
    log.settled(first)
    log.settled(second, outcome="denied_by_policy")
    denial = decision(approved=False, override=ApprovalOverride("", "try the other one"))
    state = await stands(log, {"appr_1": denial, "appr_2": noted("never read")})
    assert state.transcript().notes == (Note(after_messages=3, text="try the other one"),)


async def test_the_note_of_a_later_batch_stands_behind_the_later_results() -> None:
    log, (first, second) = with_batch()
    log.completed(first)
    log.completed(second)
    log.step_started()
    (third,) = log.reply(tool_call("c"))
    log.asked("appr_1", third)
    log.tool_started(third)
    state = await stands(log, {"appr_1": noted("careful")})
    assert state.transcript().notes == (Note(after_messages=5, text="careful"),)
