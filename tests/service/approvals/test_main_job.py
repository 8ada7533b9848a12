"""The main job on the real store: ask, pause, decide, resume, in every way a decision can go."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.service.deaths import other
from tests.support.played.recorded_script import is_paired, results_in

if TYPE_CHECKING:
    from tests.support.service.house import House

pytestmark = pytest.mark.postgres

JOB = 'call mutate {"to":"a"}\n---\nsay sent'
ASKED = [
    "run.created",
    "message.user",
    "run.started",
    "context.assembled",
    "step.started",
    "message.assistant",
    "call.gated",
    "run.checkpointed",
    "approval.requested",
    "run.paused",
]
REFUSED = [
    "approval.decided",
    "approval.resolved",
    "run.resumed",
    "tool.settled",
    "step.completed",
    "step.started",
    "text.delta",
    "message.assistant",
    "step.completed",
    "run.completed",
]


async def test_a_run_that_asks_for_nothing_is_answered(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await alice.run("say hello")
    assert run.status == "queued"
    run = await house.drive(run)
    assert run.status == "completed"
    assert run.answer == {"answer": "hello", "finish_reason": "goal", "tool_calls_seen": 0}
    assert await house.types(run) == [
        "run.created",
        "message.user",
        "run.started",
        "context.assembled",
        "step.started",
        "text.delta",
        "message.assistant",
        "step.completed",
        "run.completed",
    ]


async def test_a_gated_call_pauses_the_run_and_does_not_run(house: House) -> None:
    """F28, I23: asked, paused, and no lease is held."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    assert run.status == "paused"
    assert await house.types(run) == ASKED
    assert house.tools.count() == 0
    (item,) = run.pending_approvals
    assert (item.tool, item.call_id, item.reason) == ("mutate", "call_1_1_0", "")
    assert await house.driver.claim(run.conversation_id) is None


async def test_an_approved_call_runs_once_with_the_bytes_that_were_signed(house: House) -> None:
    """I1, I3, I4."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    (asked,) = await house.pending(run)
    decided = await alice.approve(asked)
    assert decided.persisted is True
    assert (decided.approval.status, decided.approval.resolved_by) == ("approved", "decision")
    assert (await house.read(run)).status == "queued"
    run = await house.drive(run)
    assert run.status == "completed"
    assert run.answer == {"answer": "sent", "finish_reason": "goal", "tool_calls_seen": 1}
    assert house.tools.args() == ['{"to":"a"}']
    assert (await house.types(run))[len(ASKED) :] == [
        "approval.decided",
        "approval.resolved",
        "run.resumed",
        "tool.started",
        "tool.completed",
        "step.completed",
        "step.started",
        "text.delta",
        "message.assistant",
        "step.completed",
        "run.completed",
    ]


async def test_a_start_names_its_decision_and_its_key(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    (asked,) = await house.pending(run)
    await alice.approve(asked)
    run = await house.drive(run)
    (started,) = await house.data(run, "tool.started")
    assert started == {
        "call_id": "call_1_1_0",
        "request_id": "call_0_0",
        "tool": "mutate",
        "args_sha256": hashlib.sha256(b'{"to":"a"}').hexdigest(),
        "idempotency_key": f"{run.id}:call_1_1_0",
        "attempt": 1,
        "covered_by": {"kind": "decision", "id": asked.id},
    }
    assert house.tools.calls[0].idempotency_key == f"{run.id}:call_1_1_0"
    (resumed,) = await house.data(run, "run.resumed")
    assert resumed == {
        "attempt": 2,
        "worker": "worker-1",
        "approvals": [asked.id],
        "questions": [],
    }


async def test_a_denied_call_never_runs_and_the_model_is_told(house: House) -> None:
    """F27, T32."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    (asked,) = await house.pending(run)
    decided = await alice.deny(asked, reason="not today")
    assert decided.approval.status == "denied"
    run = await house.drive(run)
    assert run.status == "completed"
    assert house.tools.count() == 0
    assert (await house.types(run))[len(ASKED) :] == REFUSED
    (settled,) = await house.data(run, "tool.settled")
    assert settled["outcome"] == "denied"
    assert orjson.loads(settled["result"]) == {
        "approved": False,
        "error": "denied by human approver",
    }
    assert "not today" not in str(house.script.requests[-1].messages)


async def test_f9_an_edited_call_runs_as_edited_and_says_so(house: House) -> None:
    alice = await house.person()
    await house.agent()
    proposal = 'call mutate {"city":"New York"}'
    run = await house.drive(await alice.run(f"{proposal}\n---\n{proposal}\n---\nsay done"))
    (asked,) = await house.pending(run)
    await alice.approve(asked, override_args={"city": "London"})
    run = await house.drive(run)
    assert house.tools.args() == ['{"city":"London"}']
    (result,) = [d["result"] for d in await house.data(run, "tool.completed")]
    assert result.startswith("The approver changed this call")
    assert '{"city":"London"}' in result.splitlines()[0]
    again = await house.pending(run)
    assert [one.card["args_canonical"] for one in again] == ['{"city":"New York"}']
    assert again[0].id != asked.id


async def test_f10_proposal_decision_and_effect_stand_side_by_side(house: House) -> None:
    """T57: three records."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    (asked,) = await house.pending(run)
    decided = await alice.approve(asked, override_args={"to": "b"})
    approval = decided.approval
    assert approval.card["args_canonical"] == '{"to":"a"}'
    assert approval.card["args_sha256"] == hashlib.sha256(b'{"to":"a"}').hexdigest()
    assert [one.override_args for one in approval.decisions] == ['{"to":"b"}']
    assert approval.effective_args == '{"to":"b"}'
    assert approval.effective_args_sha256 == hashlib.sha256(b'{"to":"b"}').hexdigest()
    (event,) = await house.data(run, "approval.decided")
    assert (event["edited"], event["effective_args_sha256"]) == (
        True,
        approval.effective_args_sha256,
    )


async def test_t58_an_edit_equal_to_the_proposal_is_none(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    (asked,) = await house.pending(run)
    await alice.approve(asked, override_args={"to": "a"})
    run = await house.drive(run)
    (event,) = await house.data(run, "approval.decided")
    assert event["edited"] is False
    (done,) = await house.data(run, "tool.completed")
    assert done["result"] == '{"mutate":{"to":"a"}}'


async def test_t62_a_note_stands_right_after_the_results_for_the_model_alone(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    (asked,) = await house.pending(run)
    await alice.approve(asked, note="the office is closed")
    run = await house.drive(run)
    shown = house.script.requests[-1].messages
    assert "the office is closed" in str(shown[-1])
    assert results_in(shown[-2:-1]) == ['{"mutate":{"to":"a"}}']
    said = await house.data(run, "message.user") + await house.data(run, "message.assistant")
    assert "closed" not in str(said)


async def test_t62_whoever_denies_may_tell_the_model_what_to_do_instead(house: House) -> None:
    """The note stays where it was when a later pause is resumed; the reason is for people."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(f'call mutate {{"n":1}}\n---\n{JOB}'))
    await alice.deny((await house.pending(run))[0], note="use the other one", reason="no funds")
    run = await house.drive(run)
    await alice.approve((await house.pending(run))[0])
    await house.drive(run)
    for request in house.script.requests[1:]:
        shown = [str(message) for message in request.messages]
        assert ["use the other one" in one for one in shown[:4]] == [False, False, False, True]
        assert "no funds" not in str(shown)


async def test_t76_an_approval_past_its_time_is_a_denial_by_the_system(house: House) -> None:
    alice = await house.person()
    await house.agent(approval_ttl_s=60)
    run = await house.drive(await alice.run(JOB))
    (asked,) = await house.pending(run)
    await house.approvals.expire(house.tenant, asked.id)
    assert (await house.read(run)).status == "paused"
    await house.clock.let_pass(60)
    await house.approvals.expire(house.tenant, asked.id)
    await house.approvals.expire(house.tenant, asked.id)
    run = await house.drive(run)
    assert run.status == "completed"
    assert house.tools.count() == 0
    (settled,) = await house.data(run, "tool.settled")
    assert settled["outcome"] == "expired"
    assert orjson.loads(settled["result"]) == {
        "approved": False,
        "error": "approval expired",
        "reason": "expired",
    }
    (resolved,) = await house.data(run, "approval.resolved")
    assert (resolved["status"], resolved["by"]) == ("expired", "expiry")


async def test_f36_a_second_pause_surfaces_like_the_first(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(f'call mutate {{"n":1}}\n---\n{JOB}'))
    await alice.approve((await house.pending(run))[0])
    run = await house.drive(run)
    assert run.status == "paused"
    (second,) = await house.pending(run)
    assert second.card["args_canonical"] == '{"to":"a"}'
    await alice.approve(second)
    run = await house.drive(run)
    assert run.status == "completed"
    assert house.tools.args() == ['{"n":1}', '{"to":"a"}']


async def test_t56_four_pauses_in_a_row_repeat_no_effect(house: House) -> None:
    alice = await house.person()
    await house.agent()
    program = "\n---\n".join([*(f'call mutate {{"n":{n}}}' for n in range(4)), "say done"])
    run = await house.drive(await alice.run(program))
    for _ in range(4):
        await alice.approve((await house.pending(run))[0])
        run = await house.drive(run)
    assert run.status == "completed"
    assert house.tools.args() == [f'{{"n":{n}}}' for n in range(4)]
    assert all(is_paired(request.messages) for request in house.script.requests)


async def test_f38_no_model_request_lies_between_decision_and_start(house: House) -> None:
    """F5: the stored call runs, whatever the model would say now."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    asked_before = len(house.script.requests)
    await alice.approve((await house.pending(run))[0])
    run = await house.drive(run)
    types = await house.types(run)
    between = types[types.index("approval.decided") : types.index("tool.started")]
    assert "step.started" not in between
    assert len(house.script.requests) == asked_before + 1


async def test_f19_an_executed_call_is_never_executed_again(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    await alice.approve((await house.pending(run))[0])
    await house.drive(run)
    for _ in range(3):
        later = await alice.run("say more", conversation_id=run.conversation_id)
        assert (await house.drive(later)).status == "completed"
    assert house.tools.count() == 1
    assert is_paired(house.script.requests[-1].messages)
    assert results_in(house.script.requests[-1].messages) == ['{"mutate":{"to":"a"}}']


async def test_t55_whatever_follows_an_approved_call_is_executed_once(house: House) -> None:
    """Three runs, each in another process, and long enough to have the history condensed."""
    alice = await house.person()
    compaction = {"max_messages": 8, "keep_messages": 2}
    await house.agent(memory={"compaction": compaction}, max_steps=100)
    run = await house.drive(await alice.run(JOB))
    await alice.approve((await house.pending(run))[0])
    assert (await house.drive(run)).status == "completed"
    long = "\n---\n".join([*(f'call read {{"n":{n}}}' for n in range(6)), "say done"])
    for number in (2, 3, 4):
        later = await alice.run(long, conversation_id=run.conversation_id)
        later = await other(house, f"worker-{number}").drive(later)
        assert later.status == "completed"
        assert "history.compacted" in await house.types(later)
    assert house.tools.count() == 1
