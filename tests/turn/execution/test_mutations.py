"""Dispatch mutations: recorded first, applied only then (turn.md 7.7, T111 to T115)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import pytest
from typing_extensions import override

from app.engine.messages import UserMessage, UserText
from app.log.calls import CallGated, ToolCompleted, ToolFailed, ToolSettled
from app.log.payload import WorkerRef
from app.policy.taint import Trust
from app.turn.ports import (
    DispatchDeny,
    DispatchInjectContext,
    DispatchModify,
    DispatchMutation,
    DispatchRedact,
    ToolInvocation,
    ToolOutcome,
)
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import MemoryTool
from tests.support.turn.workers import delegated, worker
from tests.support.turn.world import World


@dataclass(slots=True)
class Recorder:
    """Keeps mutations; says no, or raises, where told to."""

    answer: bool | Exception = True
    kept: list[DispatchMutation] = field(default_factory=list)

    async def record(self, mutation: DispatchMutation) -> bool:
        self.kept.append(mutation)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


FAILING = [
    pytest.param(False, id="says-no"),
    pytest.param(OSError("disk"), id="raises"),
]


def one_call(**tool: Any) -> World:
    return World(
        [reply(called("c1", "post", {"n": 1})), reply(said("ok"))], MemoryTool("post", **tool)
    )


@pytest.mark.parametrize("decision", [DispatchModify({"n": 9}), DispatchInjectContext("beware")])
async def test_t111_without_a_recorder_the_proposal_runs(decision: Any) -> None:
    world = one_call(decision=decision, replacement=DispatchRedact("other"))
    await world.turn()
    assert world.tools.calls[0].args_canonical == b'{"n":1}'
    assert [(one.outcome, one.rule) for one in world.journal.of(CallGated)] == [("allow", "none")]
    assert world.journal.of(ToolCompleted)[0].result == '{"ran":"post"}'


async def test_a_recorded_rewrite_runs_in_place_of_the_proposal() -> None:
    world, recorder = one_call(decision=DispatchModify({"n": 9}, "cap-n")), Recorder()
    await world.turn(dispatch_recorder=recorder)
    assert world.tools.calls[0].args_canonical == b'{"n":9}'
    (mutation,) = recorder.kept
    assert (mutation.kind, mutation.call_id, mutation.tool, mutation.rule) == (
        "input_rewrite",
        "call_1_1_0",
        "post",
        "cap-n",
    )
    assert mutation.original_sha256 == hashlib.sha256(b'{"n":1}').hexdigest()
    assert mutation.mutated == '{"n":9}'
    assert [(one.outcome, one.rule) for one in world.journal.of(CallGated)] == [
        ("modify", "transform")
    ]


async def test_a_recorded_injection_is_placed_like_a_note() -> None:
    world, recorder = one_call(decision=DispatchInjectContext("beware", "warn")), Recorder()
    await world.turn(dispatch_recorder=recorder)
    last = world.prepared.requests[1].messages[-1]
    assert isinstance(last, UserMessage)
    assert last.content == (UserText(text="beware"),)
    assert [(one.kind, one.rule, one.mutated) for one in recorder.kept] == [
        ("context_injection", "warn", "beware")
    ]


@pytest.mark.parametrize(("by_now", "records"), [(9, 0), (8, 1)])
async def test_what_a_lost_worker_process_recorded_is_recorded_once_and_applied(
    by_now: int, records: int
) -> None:
    """What policy makes of the call by now is recorded where it is something else."""
    replies = [reply(called("c1", "post", {"n": 1})), reply(said("lost")), reply(said("ok"))]
    world = World(replies, MemoryTool("post", decision=DispatchModify({"n": 9})))
    first, recorder = Recorder(), Recorder()
    await world.turn(dispatch_recorder=first)
    world.crash(world.journal.types.index("message.assistant") + 1)
    world.tools.calls.clear()
    world.tools.by_name["post"].decision = DispatchModify({"n": by_now})
    world.known_of_calls = {"mutations": tuple(first.kept)}
    await world.turn(dispatch_recorder=recorder)
    assert len(recorder.kept) == records
    assert world.tools.calls[0].args_canonical == b'{"n":%d}' % by_now


@pytest.mark.parametrize("answer", FAILING)
@pytest.mark.parametrize("decision", [DispatchModify({"n": 9}), DispatchInjectContext("beware")])
async def test_t112_a_mutation_that_is_not_recorded_refuses_the_call(
    answer: bool | Exception, decision: Any
) -> None:
    world = one_call(decision=decision)
    await world.turn(dispatch_recorder=Recorder(answer))
    assert world.tools.ran == []
    assert [one.outcome for one in world.journal.of(ToolSettled)] == ["denied_by_policy"]


@pytest.mark.parametrize(
    ("rewritten", "parameters"),
    [
        pytest.param({"n": "x"}, {"properties": {"n": {"type": "integer"}}}, id="off-schema"),
        pytest.param({"n": "\ud800"}, {}, id="without-a-canonical-form"),
        pytest.param({"n": 2**53}, {}, id="beyond-double-precision"),
    ],
)
async def test_a_rewrite_that_could_not_run_refuses_the_call(
    rewritten: dict[str, Any], parameters: dict[str, Any]
) -> None:
    world, recorder = (
        one_call(decision=DispatchModify(rewritten), parameters=parameters),
        Recorder(),
    )
    await world.turn(dispatch_recorder=recorder)
    assert (world.tools.ran, recorder.kept) == ([], [])


async def test_t113_a_recorded_redaction_is_all_that_anybody_sees() -> None:
    world, recorder = one_call(replacement=DispatchRedact("[redacted]", "keys")), Recorder()
    await world.turn(dispatch_recorder=recorder)
    assert world.journal.of(ToolCompleted)[0].result == "[redacted]"
    (mutation,) = recorder.kept
    assert (mutation.kind, mutation.rule) == ("result_redaction", "keys")
    assert mutation.mutated == "[redacted]"
    assert mutation.original_sha256 == hashlib.sha256(b'{"ran":"post"}').hexdigest()
    assert '{"ran":"post"}' not in str(world.run.messages())


@pytest.mark.parametrize("answer", FAILING)
async def test_t113_a_redaction_that_is_not_recorded_withholds_the_result(
    answer: bool | Exception,
) -> None:
    async def body(call: ToolInvocation) -> ToolOutcome:
        return ToolOutcome(text="sk-123", trust=Trust.QUARANTINED_CONTENT)

    world = one_call(replacement=DispatchRedact("[redacted]", "keys"), body=body)
    result = await world.turn(dispatch_recorder=Recorder(answer))
    (failed,) = world.journal.of(ToolFailed)
    assert failed.code == "result_withheld"
    assert failed.error == '{"error":"The result is withheld.","code":"result_withheld"}'
    assert result.tainted


async def test_a_redaction_that_cannot_be_computed_withholds_the_result() -> None:
    world = one_call(replacement=TimeoutError("pattern"))
    await world.turn(dispatch_recorder=Recorder())
    assert [one.code for one in world.journal.of(ToolFailed)] == ["result_withheld"]


async def test_a_result_without_redaction_passes_untouched() -> None:
    world, recorder = one_call(), Recorder()
    await world.turn(dispatch_recorder=recorder)
    assert (world.journal.of(ToolCompleted)[0].result, recorder.kept) == ('{"ran":"post"}', [])


async def test_t114_the_record_follows_the_reply_and_precedes_the_start() -> None:
    seen: list[list[str]] = []

    class Watching(Recorder):
        @override
        async def record(self, mutation: DispatchMutation) -> bool:
            seen.append(world.journal.types)
            return True

    world = one_call(decision=DispatchModify({"n": 9}))
    await world.turn(dispatch_recorder=Watching())
    assert seen == [["step.started", "message.assistant"]]


async def test_t115_a_denial_of_pre_dispatch_asks_nobody() -> None:
    world = one_call(decision=DispatchDeny("outside office hours"), asks=True)
    result = await world.turn()
    assert result.pending_approvals == ()
    assert "outside office hours" in world.journal.of(ToolSettled)[0].result


async def test_what_a_worker_s_call_is_changed_to_is_recorded_as_the_worker_s() -> None:
    changed = MemoryTool("post", decision=DispatchModify({"n": 9}, "cap-n"))
    clerk = worker("clerk", [reply(called("c1", "post", {"n": 1})), reply(said("42"))], changed)
    world = World([reply(delegated("d1", "clerk")), reply(said("ok"))])
    recorder = Recorder()
    await world.turn(delegate_descriptors=[clerk.descriptor], dispatch_recorder=recorder)
    (mutation,) = recorder.kept
    assert mutation.worker == WorkerRef(call_id="call_1_1_0", agent="clerk")
    assert (mutation.turn_id, mutation.mutated) == ("turn_1/call_1_1_0/1", '{"n":9}')
    assert [call.args_canonical for call in clerk.tools.calls] == [b'{"n":9}']
