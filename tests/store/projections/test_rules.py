"""What each event does to the rows that readers see, in real tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from app.log.approvals import DecisionRefused, SessionApprovalEnded
from app.log.envelope import NewEvent
from app.log.runs import ConversationUpdated
from app.policy.taint import Trust
from tests.support.database.postgres import (
    NOON,
    Talk,
    after,
    approval_requested,
    cancelled,
    completed,
    decided,
    failed,
    new_id,
    paused,
    question_answered,
    question_asked,
    resolved,
    resumed,
    started,
    step_completed,
    tool_completed,
    tool_started,
)

if TYPE_CHECKING:
    from app.log.records import ApprovalRecord, RunRecord
    from app.store.open import Store

pytestmark = pytest.mark.postgres


@dataclass(slots=True)
class Scene:
    """A conversation with one run that a worker has started."""

    talk: Talk
    run_id: str

    async def happened(self, *events: NewEvent) -> None:
        await self.talk.request(*events)

    async def run(self) -> RunRecord:
        async with self.talk.store.database.session(self.talk.tenant) as session:
            run = await session.run(self.run_id)
        assert run
        return run

    async def approval(self, approval_id: str) -> ApprovalRecord:
        async with self.talk.store.database.session(self.talk.tenant) as session:
            approval = await session.approval(approval_id)
        assert approval
        return approval

    async def pause(self, *approval_ids: str, **fields: Any) -> None:
        requests = [
            approval_requested(approval_id, self.run_id, self.talk.id, **fields)
            for approval_id in approval_ids
        ]
        await self.happened(*requests, paused(self.run_id, *approval_ids))


@pytest.fixture
async def scene(store: Store, tenant: str) -> Scene:
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask(max_steps=5, metadata={"a": 1}, unattended=True)
    await talk.request(started(run_id), now=after(1))
    return Scene(talk, run_id)


async def test_a_run_that_started_is_the_active_one(scene: Scene) -> None:
    run = await scene.run()
    assert (run.status, run.attempts, run.started_at, run.created_at) == (
        "running",
        1,
        after(1),
        NOON,
    )
    assert (run.max_steps, run.metadata, run.unattended) == (5, {"a": 1}, True)
    assert (run.created_seq, run.head_seq) == (2, 3)
    async with scene.talk.store.database.session(scene.talk.tenant) as session:
        conversation = await session.conversation(scene.talk.id)
    assert conversation
    assert (conversation.active_run_id, conversation.head_seq) == (scene.run_id, 3)


async def test_a_run_that_is_taken_up_again_keeps_its_start(scene: Scene) -> None:
    await scene.talk.request(resumed(scene.run_id, attempt=2), now=after(9))
    run = await scene.run()
    assert (run.attempts, run.started_at) == (2, after(1))


async def test_steps_and_usage_add_up_and_a_worker_adds_usage_alone(scene: Scene) -> None:
    await scene.happened(step_completed(scene.run_id, 5))
    await scene.happened(
        step_completed(scene.run_id, 7), step_completed(scene.run_id, 100, worker="call_0_0")
    )
    run = await scene.run()
    assert (run.steps, run.usage.input_tokens) == (2, 112)


async def test_a_completed_run_has_its_answer_and_the_totals_as_given(scene: Scene) -> None:
    await scene.happened(step_completed(scene.run_id, 5))
    await scene.talk.request(completed(scene.run_id, "sent", steps=4, tokens=50), now=after(3))
    run = await scene.run()
    assert (run.status, run.steps, run.usage.input_tokens) == ("completed", 4, 50)
    assert run.answer == {"answer": "sent", "finish_reason": "goal", "tool_calls_seen": 0}
    assert (run.ended_at, run.is_ended) == (after(3), True)


async def test_a_failed_run_has_its_error(scene: Scene) -> None:
    await scene.happened(failed(scene.run_id))
    run = await scene.run()
    assert (run.status, run.answer) == ("failed", None)
    assert run.error == {"code": "no_path", "message": "it did not work"}


@pytest.mark.parametrize("late", [started, failed, cancelled, step_completed])
async def test_a_terminal_status_is_never_overwritten(scene: Scene, late: object) -> None:
    await scene.happened(completed(scene.run_id))
    ended = await scene.run()
    assert callable(late)
    await scene.happened(late(scene.run_id))
    run = await scene.run()
    assert (run.status, run.steps, run.attempts) == ("completed", ended.steps, ended.attempts)


async def test_a_pause_shows_what_it_waits_for(scene: Scene) -> None:
    one, two, question = new_id("appr"), new_id("appr"), new_id("ques")
    await scene.happened(
        approval_requested(one, scene.run_id, scene.talk.id, title="First"),
        approval_requested(two, scene.run_id, scene.talk.id, call_id="call_0_2"),
        question_asked(question, scene.run_id),
        paused(scene.run_id, one, two, questions=[question]),
    )
    run = await scene.run()
    assert run.status == "paused"
    assert [(item.id, item.call_id, item.title) for item in run.pending_approvals] == [
        (one, "call_0_0", "First"),
        (two, "call_0_2", "Post"),
    ]
    assert [(item.id, item.call_id) for item in run.pending_questions] == [(question, "call_0_1")]


async def test_the_last_settled_item_queues_the_run(scene: Scene) -> None:
    one, question = new_id("appr"), new_id("ques")
    await scene.happened(
        approval_requested(one, scene.run_id, scene.talk.id),
        question_asked(question, scene.run_id),
        paused(scene.run_id, one, questions=[question]),
    )
    await scene.happened(decided(one, scene.run_id), resolved(one, scene.run_id, "approved"))
    assert (await scene.run()).status == "paused"
    await scene.happened(question_answered(question, scene.run_id))
    run = await scene.run()
    assert (run.status, run.pending_approvals, run.pending_questions) == ("queued", (), ())


async def test_settled_before_the_run_paused_it_is_not_queued(scene: Scene) -> None:
    one = new_id("appr")
    await scene.happened(approval_requested(one, scene.run_id, scene.talk.id))
    await scene.happened(resolved(one, scene.run_id, "cancelled", by="cancel"))
    assert (await scene.run()).status == "running"


async def test_a_cancel_with_its_approvals_is_final(scene: Scene) -> None:
    one = new_id("appr")
    await scene.pause(one)
    await scene.happened(
        resolved(one, scene.run_id, "cancelled", by="cancel"), cancelled(scene.run_id)
    )
    assert (await scene.run()).status == "cancelled"
    assert (await scene.approval(one)).status == "cancelled"


async def test_a_decision_is_kept_with_its_exact_bytes(scene: Scene) -> None:
    one = new_id("appr")
    await scene.pause(one)
    event = decided(one, scene.run_id, override_args='{"b":2}', note="mind the gap", reason="ok")
    await scene.talk.request(event, now=after(5))
    approval = await scene.approval(one)
    assert (approval.status, approval.principal) == ("pending", "alice")
    (decision,) = approval.decisions
    assert (decision.signed, decision.at) == (event.private, after(5))
    assert (decision.override_args, decision.note, decision.reason) == (
        '{"b":2}',
        "mind the gap",
        "ok",
    )
    assert decision.covered_capabilities == ("arbitrary-egress", "mutate-external")
    await scene.talk.request(resolved(one, scene.run_id, "approved"), now=after(6))
    approval = await scene.approval(one)
    assert (approval.status, approval.resolved_by, approval.resolved_at) == (
        "approved",
        "decision",
        after(6),
    )
    assert (approval.effective_args, approval.effective_args_sha256) == ('{"b":2}', "b" * 64)


async def test_without_an_edit_an_approved_call_runs_as_it_was_asked(scene: Scene) -> None:
    one, two = new_id("appr"), new_id("appr")
    await scene.pause(one, two)
    await scene.happened(decided(one, scene.run_id), resolved(one, scene.run_id, "approved"))
    await scene.happened(resolved(two, scene.run_id, "approved", by="session"))
    for approval in (await scene.approval(one), await scene.approval(two)):
        assert (approval.effective_args, approval.effective_args_sha256) == ('{"a":1}', "a" * 64)


async def test_a_later_denial_takes_the_effective_arguments_away(scene: Scene) -> None:
    one = new_id("appr")
    await scene.pause(one)
    await scene.happened(decided(one, scene.run_id))
    await scene.happened(
        decided(one, scene.run_id, "deny", approver="bob"), resolved(one, scene.run_id, "denied")
    )
    approval = await scene.approval(one)
    assert (approval.status, approval.effective_args) == ("denied", None)
    assert [(d.approver, d.decision) for d in approval.decisions] == [
        ("alice", "approve"),
        ("bob", "deny"),
    ]


async def test_only_a_newer_request_takes_the_place_of_an_approved_one(scene: Scene) -> None:
    one = new_id("appr")
    await scene.pause(one)
    await scene.happened(decided(one, scene.run_id), resolved(one, scene.run_id, "approved"))
    await scene.happened(resolved(one, scene.run_id, "expired", by="expiry"))
    assert (await scene.approval(one)).status == "approved"
    await scene.happened(resolved(one, scene.run_id, "superseded", by="superseded"))
    approval = await scene.approval(one)
    assert (approval.status, approval.effective_args) == ("superseded", None)


async def test_refusals_are_counted_while_the_approval_is_pending(scene: Scene) -> None:
    one = new_id("appr")
    await scene.pause(one)
    refused = NewEvent(
        DecisionRefused(approval_id=one, code="decision.binding", pointer=None, caller="eve"),
        run_id=scene.run_id,
    )
    await scene.happened(refused)
    await scene.happened(refused, refused)
    assert (await scene.approval(one)).refusals == 3


async def test_a_session_scope_is_a_standing_consent_once_it_is_approved(scene: Scene) -> None:
    store, tenant = scene.talk.store, scene.talk.tenant
    one, two = new_id("appr"), new_id("appr")
    await scene.pause(one, two)
    await scene.happened(decided(one, scene.run_id, scope="session", approver="bob", needed=2))
    async with store.database.session(tenant) as session:
        assert await session.session_approvals(scene.talk.id) == []
    await scene.happened(
        decided(one, scene.run_id, scope="session"), resolved(one, scene.run_id, "approved")
    )
    async with store.database.session(tenant) as session:
        (standing,) = await session.session_approvals(scene.talk.id)
    assert (standing.approval_id, standing.at) == (one, NOON)
    await scene.talk.request(
        decided(two, scene.run_id, scope="session"),
        resolved(two, scene.run_id, "approved"),
        now=after(8),
    )
    async with store.database.session(tenant) as session:
        (standing,) = await session.session_approvals(scene.talk.id)
    assert (standing.principal, standing.agent, standing.tool) == ("alice", "helper", "http_post")
    assert (standing.approval_id, standing.at) == (two, after(8))
    assert standing.tool_definition_digest == "e" * 64
    await scene.happened(
        NewEvent(SessionApprovalEnded(tool="http_post", agent="helper", principal="alice"))
    )
    async with store.database.session(tenant) as session:
        assert await session.session_approvals(scene.talk.id) == []


@pytest.mark.parametrize("scopes", [("session", "once"), ("once", "session")])
async def test_a_standing_consent_needs_the_word_of_every_approver(
    scene: Scene, scopes: tuple[str, str]
) -> None:
    one = new_id("appr")
    await scene.pause(one)
    await scene.happened(decided(one, scene.run_id, scope=scopes[0], approver="bob", needed=2))
    await scene.happened(
        decided(one, scene.run_id, scope=scopes[1]), resolved(one, scene.run_id, "approved")
    )
    async with scene.talk.store.database.session(scene.talk.tenant) as session:
        assert await session.session_approvals(scene.talk.id) == []


async def test_an_execution_is_recorded_once_for_each_call(scene: Scene) -> None:
    await scene.happened(tool_started(scene.run_id, "call_0_0"))
    await scene.happened(tool_started(scene.run_id, "call_0_1"))
    await scene.happened(tool_completed(scene.run_id, "call_0_0"))
    await scene.happened(tool_started(scene.run_id, "call_0_1", attempt=2))
    await scene.happened(tool_completed(scene.run_id, "never_started"))
    executions = await scene.talk.store.everyone.pool.fetch(
        """SELECT call_id, attempt, settled FROM tool_executions
        WHERE tenant = $1 AND run_id = $2 ORDER BY call_id""",
        scene.talk.tenant,
        scene.run_id,
    )
    assert [tuple(row) for row in executions] == [("call_0_0", 1, True), ("call_0_1", 2, False)]


async def test_a_quarantined_result_taints_the_run(scene: Scene) -> None:
    await scene.happened(tool_started(scene.run_id, "c"))
    assert (await scene.run()).tainted is False
    await scene.happened(tool_completed(scene.run_id, "c", trust=Trust.QUARANTINED_CONTENT))
    assert (await scene.run()).tainted is True


async def test_a_run_that_was_queued_clean_starts_tainted_with_its_conversation(
    store: Store, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    first, second = await talk.ask(), await talk.ask()
    await talk.request(tool_completed(first, "c", trust=Trust.QUARANTINED_CONTENT))
    scene = Scene(talk, second)
    assert (await scene.run()).tainted is False
    await scene.happened(started(second))
    assert (await scene.run()).tainted is True


async def test_an_updated_conversation_reads_as_updated(scene: Scene) -> None:
    await scene.happened(
        NewEvent(ConversationUpdated(changed={"title": "New", "participants": ["bob"]}, by="alice"))
    )
    await scene.happened(NewEvent(ConversationUpdated(changed={"metadata": {"k": 2}}, by="alice")))
    async with scene.talk.store.database.session(scene.talk.tenant) as session:
        conversation = await session.conversation(scene.talk.id)
    assert conversation
    assert (conversation.title, conversation.participants) == ("New", ("bob",))
    assert (conversation.metadata, conversation.principal) == ({"k": 2}, "alice")
    await scene.happened(NewEvent(ConversationUpdated(changed={"title": None}, by="alice")))
    async with scene.talk.store.database.session(scene.talk.tenant) as session:
        conversation = await session.conversation(scene.talk.id)
    assert conversation
    assert conversation.title is None
