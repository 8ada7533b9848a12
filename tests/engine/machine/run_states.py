"""Runs at rest: one builder for each state, and for the ways to get into it that differ."""

from __future__ import annotations

from app.engine.agent_run import AgentRun
from app.engine.commands import Ignore, Repair, Repeat, Skip, Stop
from app.engine.errors import PromptCancelled
from app.engine.streaming.items import InternalCallId, StreamedTurn
from app.engine.usage import Usage
from tests.engine.run_driving import (
    ADD,
    answered,
    call,
    expect_call_tools,
    expect_done,
    in_batch,
    malformed,
    started,
    stopped_at,
    text,
)

SAID = text("a")


def awaiting() -> AgentRun:
    return started(2)


def recorded() -> AgentRun:
    run = started(2)
    run.record_streamed_completion_call(Usage(input_tokens=1))
    return run


def parked() -> AgentRun:
    """Repaired at 0, skipped at 1, ignored at 2, parked at 3, with a good call at 4."""
    run = started(2)
    answered(run, *(call(f"c{place}", f"unknown_{place}") for place in range(4)), call("c4"))
    for action in (Repair(tool_name="add"), Skip(reason="no"), Ignore()):
        run.resolve_invalid_tool_call(action)
    return run


def accepted() -> AgentRun:
    run = started(2)
    answered(run, SAID, call("c1"), call("c2", "unknown"))
    run.resolve_invalid_tool_call(Skip(reason="no"))
    return run


def accepted_stream() -> AgentRun:
    run = started(2)
    internal = tuple(InternalCallId(position=at, internal_call_id=f"i{at}") for at in (1, 2))
    choice = (SAID, call("c1"), call("c2"))
    run.streamed_turn(StreamedTurn(choice=choice, policy=ADD, internal_call_ids=internal))
    return run


def executing() -> AgentRun:
    run = in_batch(SAID, call("c1"), call("c2"))
    (first, _) = expect_call_tools(run).calls
    run.answer_tool_call(first.answer("1"))
    return run


def done() -> AgentRun:
    run = started()
    answered(run, SAID)
    expect_done(run)
    return run


def rolled_back() -> AgentRun:
    run = started(2)
    run.resolve_streamed_invalid_tool_call(*stopped_at(call("c", "bad")), Skip(reason="no"))
    return run


def repeated() -> AgentRun:
    run = started(2)
    answered(run, SAID)
    run.retry_model_turn(Repeat())
    return run


def fresh() -> AgentRun:
    return AgentRun.new("question")


def accepted_text() -> AgentRun:
    run = started(2)
    answered(run, SAID)
    return run


def executing_malformed() -> AgentRun:
    return in_batch(malformed("c1"), call("c2"))


def failed() -> AgentRun:
    run = started()
    answered(run, call("c", "unknown"))
    try:
        run.resolve_invalid_tool_call(Stop(reason="enough"))
    except PromptCancelled:
        return run
    raise AssertionError("a stop ends the run")


EVERY_STATE = (
    fresh, rolled_back, repeated, awaiting, recorded, parked, accepted, accepted_stream,
    accepted_text, executing, executing_malformed, done, failed,
)  # fmt: skip
