"""Every projection equals its rebuild from the log, whatever has happened."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.log.envelope import NewEvent
from app.log.runs import ConversationUpdated
from app.policy.taint import Trust
from app.store.log.rebuild import Difference, rebuild
from app.store.open import Store
from tests.support.database.postgres import (
    NOON,
    Talk,
    approval_requested,
    cancelled,
    completed,
    decided,
    failed,
    grant_replayed,
    new_id,
    paused,
    question_answered,
    question_asked,
    resolved,
    resumed,
    run_created,
    said,
    started,
    step_completed,
    tool_completed,
    tool_started,
)
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.postgres

ACTS = (
    "create",
    "start",
    "resume",
    "say",
    "step",
    "worker step",
    "call",
    "result",
    "taint",
    "use a grant",
    "pause",
    "approve",
    "approve for session",
    "deny",
    "withdraw",
    "supersede",
    "ask",
    "answer",
    "complete",
    "fail",
    "cancel",
    "rename",
)

WAITING = ACTS[ACTS.index("pause") : ACTS.index("complete")]


@dataclass(slots=True)
class History:
    """Events in any order, but that an approval is resolved once, and superseded only then.

    The use cases see to that under the conversation's lock; the other rules hold for any history.
    """

    conversation_id: str
    runs: list[str] = field(default_factory=list)
    pending: list[tuple[str, str]] = field(default_factory=list)
    approved: list[tuple[str, str]] = field(default_factory=list)
    questions: list[tuple[str, str]] = field(default_factory=list)
    count: int = 0

    def events(self, act: str) -> list[NewEvent]:
        """What is appended when somebody does `act` to the latest of its kind."""
        self.count += 1
        if act == "create" or not self.runs:
            self.runs.append(new_id("run"))
            return [run_created(self.runs[-1], metadata={"n": self.count, "nul": "\0"})]
        if act == "rename":
            return [NewEvent(ConversationUpdated(changed={"title": f"{self.count}\0"}, by="a"))]
        if act in WAITING:
            return self._waiting(act)
        return _of_run(act, self.runs[-1 - self.count % len(self.runs)])

    def _waiting(self, act: str) -> list[NewEvent]:
        run_id = self.runs[-1]
        candidates = self.approved if act == "supersede" else self.pending
        if act == "pause" or (not candidates and act not in ("ask", "answer")):
            self.pending.append((new_id("appr"), run_id))
            requested = approval_requested(*self.pending[-1], self.conversation_id, title="\0")
            return [requested, paused(run_id, self.pending[-1][0])]
        if act == "ask" or (act == "answer" and not self.questions):
            self.questions.append((new_id("ques"), run_id))
            many = 1 + self.count % 2
            return [question_asked(*self.questions[-1], count=many), paused(run_id)]
        if act == "answer":
            return [question_answered(*self.questions[self.count % len(self.questions)])]
        approval = candidates.pop(self.count % len(candidates))
        if act in ("approve", "approve for session"):
            self.approved.append(approval)
        who = f"approver {self.count}"
        match act:
            case "approve":
                return [decided(*approval, approver=who), resolved(*approval, "approved")]
            case "approve for session":
                given = decided(*approval, approver=who, scope="session", override_args='{"b":2}')
                return [given, resolved(*approval, "approved")]
            case "deny":
                return [decided(*approval, "deny", approver=who), resolved(*approval, "denied")]
            case "supersede":
                return [resolved(*approval, "superseded", by="superseded")]
            case _:
                return [resolved(*approval, "cancelled", by="cancel")]


def _of_run(act: str, run_id: str) -> list[NewEvent]:
    made: dict[str, Callable[[], NewEvent]] = {
        "start": lambda: started(run_id),
        "resume": lambda: resumed(run_id),
        "say": lambda: said(run_id, "text"),
        "step": lambda: step_completed(run_id, 3),
        "worker step": lambda: step_completed(run_id, 5, worker="call"),
        "call": lambda: tool_started(run_id, "call"),
        "result": lambda: tool_completed(run_id, "call"),
        "taint": lambda: tool_completed(run_id, "call", trust=Trust.QUARANTINED_CONTENT),
        "use a grant": lambda: grant_replayed(run_id),
        "complete": lambda: completed(run_id, "\0", tokens=9),
        "fail": lambda: failed(run_id),
        "cancel": lambda: cancelled(run_id),
    }
    return [made[act]()]


@settings(max_examples=30)
@given(
    appends=st.lists(st.lists(st.sampled_from(ACTS), min_size=1, max_size=5), max_size=12),
)
def test_projections_equal_their_rebuild_after_any_history(
    dsn: str, appends: list[list[str]]
) -> None:
    asyncio.run(_live_then_compare(dsn, appends))


async def _live_then_compare(dsn: str, appends: list[list[str]]) -> None:
    async with Store.open(dsn, seal=SEAL, process="rebuild") as store:
        talk = await Talk(store, "histories").open()
        history = History(talk.id)
        for acts in appends:
            await talk.request(*(event for act in acts for event in history.events(act)))
    assert await rebuild(dsn, conversation_id=talk.id) == []


async def test_a_changed_row_is_found_and_put_right(store: Store, dsn: str, tenant: str) -> None:
    talk = await Talk(store, tenant).open(title="Right")
    run_id = await talk.ask()
    await talk.request(started(run_id), tool_started(run_id, "c"))
    await store.everyone.pool.execute("UPDATE runs SET status = 'failed' WHERE id = $1", run_id)
    await store.everyone.pool.execute(
        "UPDATE conversations SET title = 'Wrong' WHERE id = $1", talk.id
    )
    await store.everyone.pool.execute("DELETE FROM tool_executions WHERE run_id = $1", run_id)
    found = await rebuild(dsn, tenant=tenant, repair=True)
    assert found[:2] == [
        Difference("conversations", talk.id, "title", "Wrong", "Right"),
        Difference("runs", run_id, "status", "failed", "running"),
    ]
    assert {difference.table for difference in found[2:]} == {"tool_executions"}
    assert await rebuild(dsn, tenant=tenant) == []
    # The lease is no projection: it is as it was, and free.
    assert (await talk.claim()).run.id == run_id


async def test_the_audit_log_is_rebuilt_like_any_other(store: Store, dsn: str, tenant: str) -> None:
    async with store.database.transaction(tenant) as tx:
        await tx.append_audit([said("run", "x")], now=NOON)
    assert await rebuild(dsn, tenant=tenant) == []
