"""What a recorder makes of workers that speak, call and answer beside each other."""

from __future__ import annotations

from app.log.calls import MessageAssistant, ToolStarted
from app.log.payload import UsageTotals, WorkerRef
from app.log.runs import StepStarted
from app.turn.ports import Fact
from app.turn.stream import TextDelta
from tests.service.driving.recording import desk, step_started

A, B = WorkerRef(call_id="call_1_1_0", agent="a"), WorkerRef(call_id="call_1_1_1", agent="b")


def began(worker: WorkerRef, step: int) -> Fact:
    started = StepStarted(attempt=1, granted=(), tainted=False, native_search=False, worker=worker)
    return Fact(started, step, turn_id=f"turn_1/{worker.call_id}/1")


async def test_workers_that_speak_at_once_do_not_tear_each_other_s_text_apart() -> None:
    at = desk()
    await at.recorder.record(step_started(), began(A, 1), began(B, 2))
    for piece in ("one ", "two ", "three"):
        await at.recorder.send(TextDelta(f"a {piece}", A))
        await at.recorder.send(TextDelta(f"b {piece}", B))
    await at.recorder.record()
    said = [event for event in at.leases.appends[-1].events if event.type == "text.delta"]
    assert [event.payload.wire() for event in said] == [
        {"text": "a one a two a three", "worker": {"call_id": "call_1_1_0", "agent": "a"}},
        {"text": "b one b two b three", "worker": {"call_id": "call_1_1_1", "agent": "b"}},
    ]
    assert [(event.turn_id, event.step) for event in said] == [
        ("turn_1/call_1_1_0/1", 1),
        ("turn_1/call_1_1_1/1", 2),
    ]


async def test_a_worker_s_calls_are_not_the_run_s_and_its_tokens_are_told_apart() -> None:
    at = desk()
    call = ToolStarted(
        call_id="call_1_1_0/call_1_1_0",
        request_id="c",
        tool="read",
        args_sha256="0" * 64,
        idempotency_key="k",
        attempt=1,
        worker=A,
    )
    usage = UsageTotals(total_tokens=7)
    reply = MessageAssistant(message_id="m", usage=usage, stop=None, content=(), worker=A)
    own = reply.model_copy(update={"worker": None})
    await at.recorder.record(Fact(call, 1), Fact(reply, 1), Fact(own, 1))
    assert at.recorder.executed == frozenset()
    assert at.recorder.worked == (usage,)
