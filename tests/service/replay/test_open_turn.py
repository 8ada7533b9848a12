"""What the limits of a turn have counted outlives the process that counted (turn.md 3.3, 3.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.turn.transcript import TurnSoFar
from tests.service.deaths import doomed, killed, other
from tests.service.replay.folding import begun, paused_log, stands
from tests.support.log.logbook import malformed_call, tool_call

if TYPE_CHECKING:
    from tests.support.log.killed import Moment
    from tests.support.log.logbook import Logbook
    from tests.support.service.house import House

DENIED = '{"approved":false,"error":"denied by human approver"}'
BROKEN = "rawcall mutate {id} {{broken"


def malformed_step(log: Logbook) -> None:
    log.step_started()
    (call_id,) = log.reply(malformed_call("m"))
    log.settled(call_id, outcome="malformed_arguments")


def resumed_after_denial() -> Logbook:
    log, ids = paused_log()
    log.paused("appr_1")
    log.resolved("appr_1", ids[1], "denied")
    log.resumed()
    log.settled(ids[1], DENIED)
    return log


async def so_far(log: Logbook) -> TurnSoFar:
    return (await stands(log)).transcript().so_far


async def test_malformed_steps_are_counted_in_a_row() -> None:
    log = begun()
    malformed_step(log)
    malformed_step(log)
    assert (await so_far(log)).malformed_steps == 2
    log.step_started()
    (sound,) = log.reply(tool_call("a"))
    log.completed(sound)
    assert (await so_far(log)).malformed_steps == 0


async def test_malformed_arguments_of_a_reserved_name_out_of_use_are_counted_as_well() -> None:
    """The name is out of use where nobody is present, and its result says that; T22, I21."""
    log = begun()
    malformed_step(log)
    log.step_started()
    asked, sound = log.reply(malformed_call("q", "ask_question"), tool_call("a"))
    log.settled(asked, outcome="unknown_tool")
    log.completed(sound)
    assert (await so_far(log)).malformed_steps == 2


async def test_a_malformed_step_counts_once_however_far_it_got() -> None:
    log = begun()
    log.step_started()
    first, second = log.reply(malformed_call("a"), malformed_call("b"))
    assert (await so_far(log)).malformed_steps == 1
    log.settled(first, outcome="malformed_arguments")
    assert (await so_far(log)).malformed_steps == 1
    log.settled(second, outcome="malformed_arguments")
    assert (await so_far(log)).malformed_steps == 1


async def test_a_pause_ends_the_row_and_what_it_left_is_no_step_of_the_next_turn() -> None:
    log = begun()
    malformed_step(log)
    log.step_started()
    asked, broken = log.reply(tool_call("a"), malformed_call("b"))
    log.asked("appr_1", asked)
    log.paused("appr_1")
    log.resumed()
    log.settled(broken, outcome="malformed_arguments")
    assert await so_far(log) == TurnSoFar()


async def test_what_was_denied_in_this_turn_is_denied_again() -> None:
    log = resumed_after_denial()
    assert await so_far(log) == TurnSoFar(denied={("http_post", b"{}"): DENIED})


async def test_steps_that_repeat_what_was_denied_are_counted_not_their_calls() -> None:
    log = resumed_after_denial()
    for _ in range(2):
        log.step_started()
        for call_id in log.reply(tool_call("r"), tool_call("s"), turn=2):
            log.settled(call_id, DENIED)
    assert (await so_far(log)).denial_reprompts == 2


async def test_a_pause_ends_denials_as_well() -> None:
    log = resumed_after_denial()
    log.step_started()
    log.reply(tool_call("a"), turn=2)
    log.paused("appr_2")
    log.resumed(3)
    assert await so_far(log) == TurnSoFar()


async def test_what_the_hatch_has_offered_stays_on_offer_until_the_turn_ends() -> None:
    log = begun()
    log.step_started()
    (miss,) = log.reply(tool_call("a", "find_customer"))
    log.missed(miss, "find_customer", "crm_find")
    log.settled(miss, outcome="tools_now_available")
    assert (await so_far(log)).recovered == ("crm_find",)
    log.step_started()
    (second,) = log.reply(tool_call("b", "find_order"))
    log.settled(second, outcome="unknown_tool")
    assert (await so_far(log)).recovered == ("crm_find",)
    log.paused("appr_1")
    assert (await so_far(log)).recovered is None


@pytest.mark.parametrize(
    ("tool", "recovered"), [("find_customer", ()), ("__handoff_to", None)], ids=["miss", "reserved"]
)
async def test_a_miss_without_a_match_has_used_the_hatch_up(
    tool: str, recovered: tuple[str, ...] | None
) -> None:
    """T119; a reserved name never reaches the hatch."""
    log = begun()
    log.step_started()
    (call,) = log.reply(tool_call("a", tool))
    log.settled(call, outcome="unknown_tool")
    assert (await so_far(log)).recovered == recovered


@pytest.mark.postgres
@pytest.mark.fault
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("event_type", ["message.assistant", "tool.settled", "step.completed"])
@pytest.mark.parametrize("step", [2, 3])
async def test_three_malformed_steps_fail_the_turn_whichever_processes_took_them(
    house: House, event_type: str, step: int, moment: Moment
) -> None:
    """turn.md 3.3: the third in a row, wherever the first two were counted."""
    alice = await house.person()
    await house.agent()
    steps = [BROKEN.format(id=name) for name in "abcd"]
    run = await alice.run("\n---\n".join([*steps, "say never"]))
    await killed(doomed(house, event_type, moment, step), run)
    run = await other(house).drive(run)
    assert run.status == "failed"
    (failed,) = await house.data(run, "run.failed")
    assert failed["code"] == "malformed_arguments"
    assert len(await house.data(run, "tool.settled")) == 3


@pytest.mark.postgres
@pytest.mark.fault
@pytest.mark.parametrize("nth", [2, 3, 4])
async def test_a_denied_call_repeated_for_ever_is_bounded_over_processes(
    house: House, nth: int
) -> None:
    """turn.md 3.7, T44: after the third repeat the turn is closed, and nobody is asked again."""
    alice = await house.person()
    await house.agent()
    same = 'say again\ncall mutate {"to":"a"}'
    run = await house.drive(await alice.run("\n---\n".join([same] * 8)))
    (asked,) = await house.pending(run)
    await alice.deny(asked)
    await killed(doomed(house, "step.completed", "after", nth), run)
    run = await other(house).drive(run)
    assert run.status == "completed"
    assert len(await house.data(run, "approval.requested")) == 1
    (completed,) = await house.data(run, "run.completed")
    assert (completed["ended_by"], house.tools.count()) == ("denial_cap", 0)
    # What the person denied, three repeats, and what the closing completion said.
    assert len(await house.data(run, "tool.settled")) == 4
    assert len(await house.data(run, "message.assistant")) == 5
