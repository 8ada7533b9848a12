"""Several calls in one step: who waits, who runs, who is decided (turn.md 3.6)."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from app.service.refusals import NotFound
from tests.support.played.recorded_script import is_paired, results_in

if TYPE_CHECKING:
    from app.log.records import ApprovalRecord, RunRecord
    from tests.support.service.house import House

pytestmark = pytest.mark.postgres

THREE = "\n".join(f'call mutate {{"n":{n}}}' for n in (1, 2, 3)) + "\n---\nsay done"
TWO = "\n".join(f'call mutate {{"n":{n}}}' for n in (1, 2)) + "\n---\nsay done"


async def paused(house: House, program: str) -> tuple[RunRecord, list[ApprovalRecord]]:
    run = await house.drive(await (await house.person()).run(program))
    return run, await house.pending(run)


async def test_f20_a_run_waits_until_the_last_of_its_approvals_is_decided(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run, (first, second) = await paused(house, TWO)
    canonical = await alice.payload(first.id, decision="approve")
    jws = alice.sign(canonical)
    await alice.post(first.id, "approve", jws)
    assert (await house.drive(run)).status == "paused"
    assert house.tools.count() == 0
    await alice.approve(second)
    run = await house.drive(run)
    assert run.status == "completed"
    assert (await alice.post(first.id, "approve", jws)).persisted is False
    assert (await house.drive(run)).status == "completed"
    assert house.tools.args() == ['{"n":1}', '{"n":2}']


async def test_t52_what_is_said_while_calls_pend_asks_no_model_and_changes_no_request(
    house: House,
) -> None:
    """T31: and the results stand before it in what the model is sent, though they came later."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run('call mutate {"to":"a"}\n---\nsay done'))
    (asked,) = await house.pending(run)
    asked_of_the_model = len(house.script.requests)
    later = await alice.run("say hello", conversation_id=run.conversation_id)
    assert (await house.drive(later)).status == "queued"
    assert len(house.script.requests) == asked_of_the_model
    assert await house.pending(run) == [asked]
    assert (await house.read(run)).status == "paused"
    await alice.approve(asked)
    assert (await house.drive(later)).status == "completed"
    messages = house.script.requests[-1].messages
    assert [message.role for message in messages] == [
        *("user", "assistant", "user"),
        *("assistant", "user"),
    ]
    assert is_paired(messages)
    assert results_in(messages[2:3]) == ['{"mutate":{"to":"a"}}']


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_f21_decisions_come_in_any_order(house: House, order: tuple[int, ...]) -> None:
    alice = await house.person()
    await house.agent()
    run, asked = await paused(house, THREE)
    for number in order[:2]:
        await alice.approve(asked[number])
        assert (await house.drive(run)).status == "paused"
    await alice.approve(asked[order[2]])
    assert (await house.drive(run)).status == "completed"
    assert sorted(house.tools.args()) == ['{"n":1}', '{"n":2}', '{"n":3}']


async def test_f22_the_right_sibling_runs(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run, asked = await paused(house, THREE)
    await alice.deny(asked[0])
    await alice.approve(asked[1])
    await alice.deny(asked[2])
    await house.drive(run)
    assert house.tools.args() == ['{"n":2}']


async def test_f57_one_denial_gives_one_result_among_three_in_source_order(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run, asked = await paused(house, THREE)
    await alice.approve(asked[0])
    await alice.deny(asked[1])
    await alice.approve(asked[2])
    run = await house.drive(run)
    request = house.script.requests[-1]
    assert is_paired(request.messages)
    assert results_in(request.messages) == ['{"mutate":{"n":1}}', "json", '{"mutate":{"n":3}}']
    results = [*await house.data(run, "tool.completed"), *await house.data(run, "tool.settled")]
    assert sorted(one["call_id"] for one in results) == ["call_1_1_0", "call_1_1_1", "call_1_1_2"]


async def test_f23_an_ungated_read_runs_once_before_the_pause(house: House) -> None:
    """T46: its result is in the log, and both stand in source order in the next request."""
    alice = await house.person()
    await house.agent()
    run, (asked,) = await paused(house, 'call mutate {"n":1}\ncall read {}\n---\nsay done')
    assert (house.tools.count("read"), house.tools.count()) == (1, 0)
    types = await house.types(run)
    assert types.index("tool.completed") < types.index("approval.requested")
    await alice.approve(asked)
    await house.drive(run)
    assert (house.tools.count("read"), house.tools.count()) == (1, 1)
    assert results_in(house.script.requests[-1].messages) == ['{"mutate":{"n":1}}', '{"read":{}}']


async def test_f35_an_ungated_effect_waits_for_the_decision_and_runs_once(house: House) -> None:
    """I14, T47."""
    alice = await house.person()
    await house.agent()
    run, (asked,) = await paused(house, 'call charge {}\ncall mutate {"n":1}\n---\nsay done')
    assert house.tools.calls == []
    await alice.approve(asked)
    await house.drive(run)
    assert (house.tools.count("charge"), house.tools.count()) == (1, 1)
    assert results_in(house.script.requests[-1].messages) == ['{"charge":{}}', '{"mutate":{"n":1}}']


async def test_f24_five_calls_have_five_real_results_in_source_order(house: House) -> None:
    alice = await house.person()
    await house.agent()
    calls = "call read {}\ncall charge {}\ncall mutate {}\ncall read {}\ncall charge {}"
    run, (asked,) = await paused(house, f"{calls}\n---\nsay done")
    await alice.approve(asked)
    run = await house.drive(run)
    assert results_in(house.script.requests[-1].messages) == [
        '{"read":{}}',
        '{"charge":{}}',
        '{"mutate":{}}',
        '{"read":{}}',
        '{"charge":{}}',
    ]
    assert await house.data(run, "tool.settled") == []
    assert len(house.script.requests) == 2


async def test_f25_what_the_service_answers_itself_needs_nobody(house: House) -> None:
    alice = await house.person()
    await house.agent()
    program = (
        'rawcall mutate bad {"n":1,"n":2}\ncall ask_question {}\n'
        'call mutate {"n":1}\ncall mutate {"n":2}\n---\nsay done'
    )
    run, asked = await paused(house, program)
    assert [one.card["args_canonical"] for one in asked] == ['{"n":1}', '{"n":2}']
    for one in asked:
        await alice.approve(one)
    run = await house.drive(run)
    assert run.status == "completed"
    outcomes = [settled["outcome"] for settled in await house.data(run, "tool.settled")]
    assert outcomes == ["malformed_arguments", "unknown_tool"]


async def test_f14_equal_calls_are_two_approvals_and_a_decision_serves_one(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run, (first, second) = await paused(house, "call mutate {}\ncall mutate {}\n---\nsay done")
    assert first.card["args_sha256"] == second.card["args_sha256"]
    await alice.approve(first)
    await alice.deny(second)
    run = await house.drive(run)
    assert house.tools.count() == 1
    (started,) = await house.data(run, "tool.started")
    assert started["covered_by"] == {"kind": "decision", "id": first.id}


async def test_f14_a_call_whose_id_repeats_across_steps_asks_anew(house: House) -> None:
    """I1: the provider's id is never an identity."""
    alice = await house.person()
    await house.agent()
    program = 'rawcall mutate same {"n":1}\n---\nrawcall mutate same {"n":1}\n---\nsay done'
    run, (first,) = await paused(house, program)
    await alice.approve(first)
    run = await house.drive(run)
    (second,) = await house.pending(run)
    assert second.id != first.id
    assert house.tools.count() == 1


async def test_f6_a_call_off_schema_asks_nobody_and_nothing_is_coerced(house: House) -> None:
    alice = await house.person()
    await house.agent()
    program = 'call strict {"n":"5"}\n---\ncall strict {"n":1.0}\n---\nsay done'
    run, (asked,) = await paused(house, program)
    assert [s["outcome"] for s in await house.data(run, "tool.settled")] == ["invalid_arguments"]
    assert asked.card["args_canonical"] == '{"n":1}'
    await alice.approve(asked)
    await house.drive(run)
    assert house.tools.args("strict") == ['{"n":1}']


async def test_a_batch_is_never_all_or_nothing(house: House) -> None:
    """What is refused of several decisions leaves the others as they are."""
    alice = await house.person()
    await house.agent()
    run, (first, second) = await paused(house, TWO)
    await alice.approve(first)
    with pytest.raises(NotFound):
        await alice.post("appr_never", "approve", "a.b.c")
    await alice.approve(second)
    assert (await house.drive(run)).status == "completed"
