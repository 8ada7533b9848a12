"""What a resumed turn knows of calls that the dispatch rules changed (turn.md 4.3, 7.7)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from app.log.calls import DispatchMutated
from app.turn.options import ApprovalOverride
from app.turn.ports import DispatchMutation
from app.turn.transcript import LoggedCall, Note
from tests.service.replay.folding import decision, stands, with_batch

if TYPE_CHECKING:
    from tests.support.log.logbook import Logbook


def mutated(log: Logbook, call_id: str, kind: str, private: bytes | None) -> None:
    event = DispatchMutated(
        call_id=call_id, tool="http_post", kind=kind, original_sha256="a" * 64, rule="r"
    )
    log.add(event, private=private, step=True)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def first_call(log: Logbook) -> LoggedCall:
    return (await stands(log)).transcript().open_calls[0]


async def test_a_rewritten_call_that_started_is_known_by_what_ran() -> None:
    log, (first, _) = with_batch()
    mutated(log, first, "input_rewrite", b'{"n":9}')
    log.tool_started(first, args_sha256=digest('{"n":9}'))
    call = await first_call(log)
    assert (call.started_args, call.is_edited) == ('{"n":9}', False)


async def test_a_rewrite_whose_rule_was_dropped_before_the_start_is_not_what_ran() -> None:
    """A worker process recorded it and was lost; the next one found no such rule."""
    log, (first, _) = with_batch()
    mutated(log, first, "input_rewrite", b'{"n":9}')
    log.tool_started(first, args_sha256=digest("{}"))
    assert (await first_call(log)).started_args is None


async def test_of_two_recorded_rewrites_the_one_that_was_started_is_what_ran() -> None:
    """Its rule was changed and changed back, and a worker process was lost each time."""
    log, (first, _) = with_batch()
    mutated(log, first, "input_rewrite", b'{"n":9}')
    mutated(log, first, "input_rewrite", b'{"n":8}')
    log.tool_started(first, args_sha256=digest('{"n":9}'))
    assert (await first_call(log)).started_args == '{"n":9}'


async def test_a_re_run_of_a_rewritten_call_keeps_what_ran() -> None:
    log, (first, _) = with_batch()
    mutated(log, first, "input_rewrite", b'{"n":9}')
    for attempt in (1, 2):
        log.tool_started(first, attempt, args_sha256=digest('{"n":9}'))
    assert (await first_call(log)).started_args == '{"n":9}'


async def test_what_an_approver_let_run_goes_before_a_rewrite_that_never_ran() -> None:
    log, (first, _) = with_batch()
    mutated(log, first, "input_rewrite", b'{"n":9}')
    log.asked("appr_1", first)
    log.tool_started(first)
    state = await stands(log, {"appr_1": decision()})
    assert state.transcript().open_calls[0].started_args is None


async def test_an_approved_re_run_keeps_the_arguments_that_ran() -> None:
    log, (first, _) = with_batch()
    log.asked("appr_1", first)
    log.tool_started(first)
    log.asked("appr_2", first)
    log.tool_started(first, 2)
    edit = decision(override=ApprovalOverride('{"n":1}', ""))
    call = (await stands(log, {"appr_1": edit, "appr_2": decision()})).transcript().open_calls[0]
    assert (call.started_args, call.is_edited, call.attempts) == ('{"n":1}', True, 2)


async def test_what_was_recorded_of_a_call_is_known_before_it_starts() -> None:
    log, (first, _) = with_batch()
    mutated(log, first, "input_rewrite", b'{"n":9}')
    recorded = DispatchMutation(
        kind="input_rewrite",
        call_id=first,
        tool="http_post",
        rule="r",
        step=1,
        original_sha256="a" * 64,
        mutated='{"n":9}',
    )
    calls = (await stands(log)).transcript().open_calls
    assert [call.mutations for call in calls] == [(recorded,), ()]


@pytest.mark.parametrize("times", [1, 2])
async def test_an_injected_text_is_a_note_once_its_call_has_started(times: int) -> None:
    """Where two workers recorded it, one after the other, there is one note all the same."""
    log, (first, _) = with_batch()
    for _ in range(times):
        mutated(log, first, "context_injection", b"beware")
    assert (await stands(log)).transcript().notes == ()
    log.tool_started(first)
    assert (await stands(log)).transcript().notes == (Note(after_messages=3, text="beware"),)


async def test_a_redaction_leaves_nothing_to_be_done() -> None:
    log, (first, _) = with_batch()
    log.tool_started(first)
    mutated(log, first, "result_redaction", None)
    call = await first_call(log)
    assert call.started_args is None
    assert (await stands(log)).transcript().notes == ()
