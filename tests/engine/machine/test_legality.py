"""P2 and P10: which method is legal in which state, and that a refused call changes nothing.

The table is agent-run.md 4, written by hand. P W R V X D F are the states in its order.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from app.engine.commands import Fail, Repeat
from app.engine.errors import ProtocolViolation, UnknownToolCall
from app.engine.usage import Usage
from tests.engine.machine import run_states as states
from tests.engine.run_driving import ADD, call, result, stopped_at, streamed, text, turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.engine.agent_run import AgentRun

BUILDERS: dict[str, tuple[Callable[[], AgentRun], ...]] = {
    "P": (states.rolled_back, states.repeated),
    "W": (states.awaiting, states.recorded),
    "R": (states.parked,),
    "V": (states.accepted_text, states.accepted, states.accepted_stream),
    "X": (states.executing, states.executing_malformed),
    "D": (states.done,),
    "F": (states.failed,),
}
METHODS: dict[str, tuple[Callable[[AgentRun], object], str]] = {
    "next_step": (lambda run: run.next_step(), "PVXD"),
    "reissue": (lambda run: run.reissue(), "W"),
    "model_response": (lambda run: run.model_response(turn(text("a"))), "W"),
    "resolve_invalid_tool_call": (lambda run: run.resolve_invalid_tool_call(Fail()), "R"),
    "resolve_unhandled": (lambda run: run.resolve_unhandled_invalid_tool_call(), "R"),
    "retry_model_turn": (lambda run: run.retry_model_turn(Repeat()), "V"),
    "replace_accepted_turn": (lambda run: run.replace_accepted_turn([text("b")]), "V"),
    "tool_results": (lambda run: run.tool_results([result("c2", "2")]), "X"),
    "answer_tool_calls": (lambda run: run.answer_tool_calls([]), "X"),
    "record_streamed": (lambda run: run.record_streamed_completion_call(Usage()), "PW"),
    "streamed_turn": (lambda run: run.streamed_turn(streamed(text("a"))), "W"),
    "resolve_streamed": (
        lambda run: run.resolve_streamed_invalid_tool_call(*stopped_at(call("c", "no")), Fail()),
        "W",
    ),
    "max_turns": (lambda run: run.max_turns(9), "PWRVX"),
    "max_invalid_tool_call_retries": (
        lambda run: run.max_invalid_tool_call_retries(9),
        "PWRVX",
    ),
    "max_consecutive_malformed_tool_calls": (
        lambda run: run.max_consecutive_malformed_tool_calls(9),
        "PWRVX",
    ),
    "with_history": (lambda run: run.with_history(()), ""),
    "with_tool_choice": (lambda run: run.with_tool_choice(None), ""),
    "with_output_validation": (lambda run: run.with_output_validation(None, 1), ""),
    "with_output_tool_name": (lambda run: run.with_output_tool_name("out"), ""),
    "with_unhandled": (lambda run: run.with_unhandled_invalid_tool_call("fail"), ""),
    "rewrite_initial_prompt": (lambda run: run.rewrite_initial_prompt("other"), ""),
    "cancel_error": (lambda run: run.cancel_error("stop"), "PWRVXDF"),
    "effective_policy": (lambda run: run.effective_policy(ADD), "PWRVXDF"),
    "set_previous_model": (lambda run: run.set_previous_model("fast"), "PWRVXDF"),
    "pin_output_tool": (lambda run: run.pin_output_tool(None), "PWRVXDF"),
    "clone": (lambda run: run.clone(), "PWRVXDF"),
}
ILLEGAL = [
    pytest.param(build, method, id=f"{name}-{build.__name__}")
    for name, (method, legal) in METHODS.items()
    for state, builders in BUILDERS.items()
    for build in builders
    if state not in legal
]
LEGAL = [
    pytest.param(build, method, id=f"{name}-{build.__name__}")
    for name, (method, legal) in METHODS.items()
    for state, builders in BUILDERS.items()
    for build in builders[:1]
    if state in legal
]


@pytest.mark.parametrize(("build", "method"), ILLEGAL)
def test_a_method_out_of_turn_is_refused_and_changes_nothing(
    build: Callable[[], AgentRun], method: Callable[[AgentRun], object]
) -> None:
    """P2, P10, A196"""
    run = build()
    before = run.dump_json()
    with pytest.raises(ProtocolViolation) as caught:
        method(run)
    assert run.dump_json() == before
    assert caught.value.chat_history == run.full_history()


@pytest.mark.parametrize(("build", "method"), LEGAL)
def test_a_method_in_turn_is_not_out_of_protocol(
    build: Callable[[], AgentRun], method: Callable[[AgentRun], object]
) -> None:
    with suppress(UnknownToolCall):  # What fail() is for.
        method(build())
