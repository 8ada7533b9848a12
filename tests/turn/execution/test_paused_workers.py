"""Workers that must ask: the pause, what it keeps, and how each goes on (turn.md 3.6, 4.2, 7.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.log.calls import (
    DelegateCompleted,
    DelegateStarted,
    ToolCompleted,
    ToolSettled,
    ToolStarted,
)
from app.log.payload import WorkerRef
from app.log.runs import StepStarted
from app.policy.grants import RememberedGrant, SessionApproval
from app.turn.result import EndedBy
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, POST, MemoryTool
from tests.support.turn.workers import delegated, worker
from tests.support.turn.world import World, approve, deny

if TYPE_CHECKING:
    from app.turn.options import ApprovalDecision
    from app.turn.result import PendingApproval
    from tests.support.turn.workers import Worker


def poster(name: str = "poster", *, asks: bool = True, times: int = 1) -> Worker:
    """A worker that posts once, and then says its name, for each of its delegations."""
    post = MemoryTool("post", required=EGRESS, asks=asks)
    once = [reply(called("c1", "post", {"by": name})), reply(said(f"{name} has posted"))]
    return worker(name, once * times, post)


def options(*workers: Worker) -> dict[str, Any]:
    return {"delegate_descriptors": [one.descriptor for one in workers]}


def allowed(pending: PendingApproval, number: int = 1) -> ApprovalDecision:
    """The approval of a worker's card."""
    assert pending.worker is not None
    return approve(pending, turn_id=f"turn_{number}/{pending.worker.call_id}/1")


def denied(pending: PendingApproval) -> ApprovalDecision:
    assert pending.worker is not None
    return deny(pending, turn_id=f"turn_1/{pending.worker.call_id}/1")


async def test_no_worker_begins_while_a_person_decides_on_a_sibling() -> None:
    """T48."""
    own = MemoryTool("send", required=POST, asks=True)
    quiet = poster(asks=False)
    batch = reply(delegated("d1", "poster"), called("c1", "send", {}))
    world = World([batch, reply(said("ok"))], own)
    paused = await world.turn(**options(quiet))
    assert paused.ended_by is EndedBy.PAUSE
    assert (quiet.provider.requests, world.journal.of(DelegateStarted)) == ([], [])
    decision = approve(paused.pending_approvals[0])
    ended = await world.turn(approval_decisions=[decision], **options(quiet))
    assert (ended.text, quiet.tools.ran, len(ended.delegate_records)) == ("ok", ["post"], 1)


async def test_a_worker_s_request_surfaces_and_the_worker_goes_on_where_it_paused() -> None:
    """T128: its siblings, done by then, are not run again."""
    asking, quiet = poster("asking"), poster("quiet", asks=False)
    read = MemoryTool("read")
    batch = reply(delegated("d1", "asking"), delegated("d2", "quiet"), called("c1", "read", {}))
    world = World([batch, reply(said("ok"))], read)
    paused = await world.turn(**options(asking, quiet))
    (card,) = paused.pending_approvals
    assert card.worker == WorkerRef(call_id="call_1_1_0", agent="asking")
    assert card.call_id == "call_1_1_0/call_1_1_0"
    assert card.occurrence_turn_id == "turn_1/call_1_1_0/1"
    (kept,) = paused.paused_workers
    assert (kept.worker, kept.is_tainted) == (card.worker, False)
    assert [record.target for record in paused.delegate_records] == ["quiet"]
    ended = await world.turn(approval_decisions=[allowed(card)], **options(asking, quiet))
    assert (ended.text, ended.pending_approvals, ended.paused_workers) == ("ok", (), ())
    assert (asking.tools.ran, quiet.tools.ran, world.tools.ran) == (["post"], ["post"], ["read"])
    assert len(asking.provider.requests) == 2
    (record,) = ended.delegate_records
    assert (record.target, record.usage.total_tokens) == ("asking", 4)
    own = [one.result for one in world.journal.of(ToolCompleted) if one.worker is None]
    assert own == ["quiet has posted", '{"ran":"read"}', "asking has posted"]


async def test_of_three_workers_one_is_denied_and_two_go_on_by_their_own_decisions() -> None:
    """T129."""
    names = ("a", "b", "c")
    workers = [poster(name) for name in names]
    batch = reply(*(delegated(f"d{name}", name) for name in names))
    world = World([batch, reply(said("ok"))])
    cards = (await world.turn(**options(*workers))).pending_approvals
    assert [card.worker and card.worker.agent for card in cards] == list(names)
    decisions = [allowed(cards[0]), denied(cards[1]), allowed(cards[2])]
    ended = await world.turn(approval_decisions=decisions, **options(*workers))
    assert ended.text == "ok"
    assert [one.tools.ran for one in workers] == [["post"], [], ["post"]]
    assert [record.succeeded for record in ended.delegate_records] == [True, True, True]
    (settled,) = world.journal.of(ToolSettled)
    assert (settled.call_id, settled.outcome) == ("call_1_1_1/call_1_1_0", "denied")


async def test_a_worker_without_its_decision_pends_again_and_the_other_goes_on() -> None:
    """T42, for workers: the same request, under the turn that emitted its call."""
    first, second = poster("a"), poster("b")
    batch = reply(delegated("da", "a"), delegated("db", "b"))
    world = World([batch, reply(said("ok"))])
    cards = (await world.turn(**options(first, second))).pending_approvals
    again = await world.turn(approval_decisions=[allowed(cards[0])], **options(first, second))
    (pending,) = again.pending_approvals
    assert (pending.worker, pending.call_id) == (cards[1].worker, cards[1].call_id)
    assert pending.occurrence_turn_id == "turn_1/call_1_1_1/1"
    assert (first.tools.ran, second.tools.ran) == (["post"], [])
    ended = await world.turn(approval_decisions=[allowed(pending)], **options(first, second))
    assert (ended.text, second.tools.ran) == ("ok", ["post"])
    assert [record.target for record in ended.delegate_records] == ["b"]


async def test_a_worker_that_asks_twice_pauses_twice_under_turns_of_its_own() -> None:
    post = MemoryTool("post", required=EGRESS, asks=True)
    replies = [reply(called("c1", "post", {})), reply(called("c1", "post", {})), reply(said("2"))]
    twice = worker("twice", replies, post)
    world = World([reply(delegated("d1", "twice")), reply(said("ok"))])
    (first,) = (await world.turn(**options(twice))).pending_approvals
    paused = await world.turn(approval_decisions=[allowed(first)], **options(twice))
    (second,) = paused.pending_approvals
    assert second.call_id == "call_1_1_0/call_2_2_0"
    decision = approve(second, turn_id="turn_2/call_1_1_0/2")
    ended = await world.turn(approval_decisions=[decision], **options(twice))
    assert (ended.text, twice.tools.ran) == ("ok", ["post", "post"])
    assert len(world.journal.of(DelegateStarted)) == len(world.journal.of(DelegateCompleted)) == 1


async def test_going_on_is_not_counted_against_the_budget() -> None:
    asking = poster("asking", times=2)
    batches = [reply(delegated("d1", "asking")), reply(delegated("d2", "asking"))]
    world = World([*batches, reply(said("ok"))])
    (card,) = (await world.turn(delegate_turn_budget=1, **options(asking))).pending_approvals
    paused = await world.turn(
        approval_decisions=[allowed(card)], delegate_turn_budget=1, **options(asking)
    )
    assert [one.call_id for one in paused.pending_approvals] == ["call_2_2_0/call_1_1_0"]


async def test_standing_consents_of_the_parent_have_no_share_in_a_worker() -> None:
    asking = poster("asking")
    covered = frozenset(EGRESS)
    world = World([reply(delegated("d1", "asking"))])
    paused = await world.turn(
        session_approved_tools={"post": SessionApproval(covered, "appr_1")},
        remembered_grants={"post": (RememberedGrant(covered, "grant_1", "hash"),)},
        untrusted_context_seed=True,
        **options(asking),
    )
    (card,) = paused.pending_approvals
    assert (card.missing, asking.tools.ran) == (EGRESS, [])


async def test_a_worker_that_began_clean_stays_so_when_its_parent_is_tainted_meanwhile() -> None:
    """The taint of its own context is what a worker's calls are judged by."""
    post = MemoryTool("post", required=EGRESS)
    ask = MemoryTool("ask", asks=True)
    replies = [reply(called("c1", "ask", {})), reply(called("c2", "post", {})), reply(said("ok"))]
    clean = worker("clean", replies, post, ask)
    world = World([reply(delegated("d1", "clean")), reply(said("ok"))])
    (card,) = (await world.turn(**options(clean))).pending_approvals
    ended = await world.turn(
        approval_decisions=[allowed(card)], untrusted_context_seed=True, **options(clean)
    )
    assert (ended.text, clean.tools.ran) == ("ok", ["ask", "post"])
    steps = [one.tainted for one in world.journal.of(StepStarted) if one.worker is not None]
    assert steps == [False, False, False]


async def test_a_worker_lost_in_the_middle_asks_before_it_repeats_an_effect() -> None:
    """turn.md 4.3 holds inside a worker as well (I15)."""
    quiet = poster("quiet", asks=False)
    world = World([reply(delegated("d1", "quiet")), reply(said("ok"))])
    await world.turn(**options(quiet))
    facts = [fact.payload for fact in world.journal.facts]
    world.crash(1 + next(n for n, one in enumerate(facts) if isinstance(one, ToolStarted)))
    again = poster("quiet", asks=False)
    again.provider._replies.pop(0)
    world.prepared._replies.append(reply(said("ok")))
    paused = await world.turn(**options(again))
    (card,) = paused.pending_approvals
    assert (card.outcome_unknown, card.worker and card.worker.agent) == (True, "quiet")
    assert again.tools.ran == []
    decision = approve(card, turn_id="turn_1/call_1_1_0/1")
    ended = await world.turn(approval_decisions=[decision], **options(again))
    assert (ended.text, again.tools.ran) == ("ok", ["post"])
    keys = {one.idempotency_key for one in world.journal.of(ToolStarted)}
    assert keys == {"run_1:call_1_1_0/call_1_1_0"}


async def test_a_worker_whose_answer_was_lost_with_its_process_is_not_asked_again() -> None:
    quiet = poster("quiet", asks=False)
    world = World([reply(delegated("d1", "quiet")), reply(said("ok")), reply(said("ok"))])
    await world.turn(**options(quiet))
    facts = [fact.payload for fact in world.journal.facts]
    world.crash(next(n for n, one in enumerate(facts) if isinstance(one, DelegateCompleted)))
    ended = await world.turn(**options(quiet))
    assert (ended.text, len(quiet.provider.requests), quiet.tools.ran) == ("ok", 2, ["post"])
    assert [record.target for record in ended.delegate_records] == ["quiet"]
