"""Where a run stands: the same from a checkpoint and from the whole log (turn.md 4)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.engine.agent_run import AgentRun
from app.turn.transcript import CallMark
from tests.service.replay.folding import begun, document, paused_log, stalled, stands, with_batch
from tests.support.log.logbook import Logbook, malformed_call, tool_call
from tests.support.stepped_clock import NOON


async def test_a_run_that_was_only_accepted_is_about_to_ask_the_model() -> None:
    log = Logbook()
    log.said("one", "two")
    state = await stands(log)
    assert state.run.state() == "preparing_request"
    assert state.user_text == "one\ntwo"
    assert state.transcript().turn_number == 1
    assert state.transcript().open_calls == ()


async def test_earlier_runs_are_its_history_and_not_its_calls() -> None:
    log = Logbook(run_id="run_0")
    log.said("before")
    log.started()
    (old,) = log.reply(tool_call("a"))
    log.completed(old)
    log.reply(text="answered")
    log.run_id = "run_1"
    log.said("now")
    state = await stands(log)
    assert len(state.run.input_history()) == 4
    assert state.executed == set()


async def test_a_reply_that_is_in_the_log_is_not_asked_for_again() -> None:
    """F5, F38: the batch stands open in the machine, as the model emitted it."""
    log, (first, second) = with_batch()
    state = await stands(log)
    assert state.run.state() == "executing_tools"
    assert [call.tool_call.id for call in state.run.pending_tool_calls()] == ["a", "b"]
    assert [(call.call_id, call.mark) for call in state.transcript().open_calls] == [
        (first, CallMark.WAITING),
        (second, CallMark.WAITING),
    ]


async def test_an_answer_that_is_in_the_log_is_the_run_s_answer() -> None:
    log = begun()
    log.step_started()
    log.reply(text="done")
    response = (await stands(log)).run.response()
    assert response is not None
    assert response.output == "done"


async def test_positions_count_every_part_of_the_message() -> None:
    log = begun()
    log.step_started()
    log.reply(tool_call("a"), tool_call("b"), text="let me see")
    state = await stands(log)
    assert [call.position for call in state.transcript().open_calls] == [1, 2]


async def test_results_in_the_log_close_their_calls() -> None:
    log, (first, second) = with_batch()
    log.tool_started(first)
    log.completed(first, "sent")
    state = await stands(log)
    assert [call.call_id for call in state.transcript().open_calls] == [second]
    assert state.executed == {first}
    assert len(state.run.pending_tool_calls()) == 1


async def test_a_closed_batch_leads_to_the_next_model_call() -> None:
    log, (first, second) = with_batch()
    log.failed(first)
    log.settled(second)
    assert (await stands(log)).run.state() == "preparing_request"


async def test_a_malformed_call_is_answered_as_the_turn_answers_it() -> None:
    log, (call_id,) = with_batch(malformed_call("a"))
    log.settled(call_id, '{"code":"malformed_arguments"}', "malformed_arguments")
    assert (await stands(log)).run.state() == "preparing_request"


async def test_the_checkpoint_and_the_whole_log_give_the_same_machine() -> None:
    """turn.md 4.1: the checkpoint is a short cut, never another truth."""
    bare, ids = paused_log()
    bare.paused("appr_1")
    whole = await stands(bare)
    cut, _ = paused_log()
    cut.checkpointed(whole.run)
    cut.paused("appr_1")
    short = await stands(cut)
    assert document(short.run) == document(whole.run)
    assert short.transcript().open_calls == whole.transcript().open_calls
    for log in (bare, cut):
        log.resolved("appr_1", ids[1], "approved")
        log.resumed()
        log.tool_started(ids[1])
        log.completed(ids[1], "sent")
        log.step_started()
        log.reply(text="done", turn=2)
    assert document((await stands(cut)).run) == document((await stands(bare)).run)


async def test_what_the_checkpoint_holds_is_not_fed_again() -> None:
    log, _ = paused_log()
    log.checkpointed(AgentRun.load((await stands(log)).run.dump_json().replace('"go"', '"went"')))
    assert '"went"' in document((await stands(log)).run)


async def test_positions_count_every_part_of_a_checkpoint_s_message() -> None:
    log = begun()
    log.step_started()
    log.reply(tool_call("a"), tool_call("b"), text="let me see")
    log.checkpointed((await stands(log)).run)
    state = await stands(log)
    assert [call.position for call in state.transcript().open_calls] == [1, 2]


@pytest.mark.parametrize("broken", [b"{}", b"not json", b'{"format":99}'])
async def test_a_checkpoint_that_does_not_load_is_rebuilt_from_the_log(broken: bytes) -> None:
    bare, _ = paused_log()
    cut, _ = paused_log()
    cut.checkpointed(broken)
    assert document((await stands(cut)).run) == document((await stands(bare)).run)


async def test_f46_two_copies_of_a_paused_run_share_nothing() -> None:
    log, _ = paused_log()
    one, other = await stands(log), await stands(log)
    before = document(other.run)
    (pending,) = one.run.pending_tool_calls()
    one.run.answer_tool_call(pending.answer("x"))
    assert document(other.run) == before


async def test_an_attempt_without_a_reply_is_to_be_taken_back() -> None:
    log = begun()
    log.step_started()
    assert (await stands(log)).interrupted_attempt == 1
    log.step_started(attempt=2)
    assert (await stands(log)).interrupted_attempt == 2


async def test_an_attempt_that_was_taken_back_or_answered_is_done_with() -> None:
    log = begun()
    log.step_started()
    log.step_discarded()
    assert (await stands(log)).interrupted_attempt is None
    log.step_started(attempt=2)
    log.reply(text="done")
    assert (await stands(log)).interrupted_attempt is None


async def test_a_reply_that_was_cut_off_has_no_place_in_the_machine() -> None:
    log = begun()
    log.step_started()
    log.cut_off("half")
    assert [message.role for message in (await stands(log)).run.messages()] == ["user"]


async def test_what_was_settled_since_the_pause_is_told_once() -> None:
    log, (_, second) = paused_log()
    log.paused("appr_1")
    log.resolved("appr_1", second, "approved")
    assert (await stands(log)).settled == ["appr_1"]
    log.resumed()
    assert (await stands(log)).settled == []


async def test_a_resumed_run_counts_its_turns() -> None:
    log, _ = paused_log()
    log.paused("appr_1")
    log.resumed()
    assert (await stands(log)).transcript().turn_number == 2


async def test_a_worker_that_takes_over_goes_on_in_the_same_turn() -> None:
    """turn.md 2.2: recovery shows the model the time at which its turn began."""
    log = begun()
    log.pass_(60)
    log.resumed()
    state = await stands(log)
    assert (state.transcript().turn_number, state.turn_began) == (1, NOON)


async def test_a_resume_is_a_turn_of_its_own_time() -> None:
    log, _ = paused_log()
    log.paused("appr_1")
    assert (await stands(log)).turn_began is None
    log.pass_(60)
    log.resumed()
    assert (await stands(log)).turn_began == NOON + timedelta(seconds=60)


async def test_f133_only_time_worked_counts() -> None:
    """Neither waiting for a person nor the time between a worker's end and the next one."""
    log = begun()
    log.pass_(2)
    log.step_started()
    log.reply(tool_call("a"))
    log.pass_(1)
    log.asked("appr_1", "call_1_1_0")
    log.paused("appr_1")
    log.pass_(600)
    log.resolved("appr_1", "call_1_1_0", "approved")
    log.pass_(1)
    log.resumed()
    log.pass_(4)
    log.tool_started("call_1_1_0")
    log.pass_(300)
    log.resumed(3)
    log.pass_(8)
    log.completed("call_1_1_0")
    assert (await stands(log)).active.seconds == 2 + 1 + 4 + 8


async def test_turns_that_got_nowhere_are_counted_in_a_row() -> None:
    log = begun()
    assert await stalled(log) == 1
    log.resumed(2)
    log.step_started()
    log.resumed(3)
    assert await stalled(log) == 3


async def test_a_step_and_a_pause_are_progress() -> None:
    log = begun()
    log.resumed(2)
    log.step_completed()
    assert await stalled(log) == 0
    log.resumed(3)
    log.paused()
    assert await stalled(log) == 0
    log.resumed(4)
    assert await stalled(log) == 1
