"""What agent-run-cases.json expects, compared with what a run returned, raised or became.

A key that is not given is not checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from app.engine.commands import CallModel, CallTools, Continue, Done, NeedsResolution
from app.engine.streaming.items import Completed, EmitToolCallDelta, InvalidToolCall
from tests.engine import case_values as read

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.engine.agent_run import AgentRun
    from app.engine.commands import AgentRunStep, InvalidToolCallContext, PendingToolCall
    from app.engine.streaming.items import StreamedTurnEvent
    from tests.engine.case_values import Json


def check_fields(found: Json, expected: Json) -> None:
    """Every expected key has the expected value."""
    for key, value in expected.items():
        assert found[key] == value, key


def step_fields(step: AgentRunStep, expected: Json) -> tuple[Json, Json]:
    """The fields of a command, and what is expected of them."""
    wanted = dict(expected)
    match step:
        case CallModel():
            found = {"prompt": step.prompt, "history": step.history, "turn": step.turn}
            found["history_len"] = len(step.history)
        case CallTools():
            found = {"turn": step.turn, "final_turn": step.final_turn}
            if "calls" in wanted:
                check_calls(step.calls, wanted.pop("calls"))
        case Done(response=response):
            found = {"output": response.output, "content": response.content}
            found |= {"messages": response.messages, "usage": response.usage}
        case _:
            assert_never(step)
    found["step"] = step.step
    return found, as_values(wanted)


def check_calls(calls: tuple[PendingToolCall, ...], expected: list[Json]) -> None:
    assert len(calls) == len(expected)
    for call, wanted in zip(calls, expected, strict=True):
        if "error_contains" in wanted:
            assert call.error is not None
            assert wanted.pop("error_contains") in call.error
        found = {
            "position": call.position,
            "kind": call.kind,
            "internal_call_id": call.internal_call_id,
            "id": call.tool_call.id,
            "name": call.tool_call.name,
            "args": call.tool_call.function.arguments,
        }
        check_fields(found, wanted)


def check_outcome(outcome: Any, expected: Json) -> None:
    wanted = dict(expected)
    if isinstance(outcome, NeedsResolution) and "context" in wanted:
        check_context(outcome.context, wanted.pop("context"))
    found = {"outcome": outcome.outcome}
    if isinstance(outcome, Continue):
        found["response_hook_suppressed"] = outcome.response_hook_suppressed
    check_fields(found, wanted)


def check_context(context: InvalidToolCallContext | None, expected: Json | None) -> None:
    if expected is None:
        assert context is None
        return
    assert context is not None
    wanted = as_values(expected)
    if "error_contains" in wanted:
        assert context.error is not None
        assert wanted.pop("error_contains") in context.error
    found = dict(context) | {"chat_history_len": len(context.chat_history)}
    check_fields(found, wanted)


def check_events(events: list[StreamedTurnEvent], expected: list[Json]) -> None:
    assert [event.event for event in events] == [wanted["event"] for wanted in expected]
    for event, wanted in zip(events, expected, strict=True):
        check_fields(_event_fields(event), as_values(wanted))


def _event_fields(event: StreamedTurnEvent) -> Json:
    match event:
        case EmitToolCallDelta() | Completed():
            return dict(event)
        case InvalidToolCall(invalid=invalid):
            return {
                "event": event.event,
                "tool_name": invalid.tool_call.name,
                "args": invalid.args,
                "internal_call_id": invalid.internal_call_id,
            }
        case _:
            return {"event": event.event}


def check_error(error: Exception, expected: Json) -> None:
    """The error is of exactly the class, with the fields expected."""
    wanted = dict(expected)
    assert type(error).__name__ == wanted.pop("type"), error
    fragments = wanted.pop("reason_contains", [])
    for fragment in [fragments] if isinstance(fragments, str) else fragments:
        assert fragment in str(error)
    if "unknown_reason" in wanted:
        wanted["reason"] = wanted.pop("unknown_reason")
    found = dict(vars(error))
    if "chat_history_len" in wanted:
        found["chat_history_len"] = len(found["chat_history"])
    check_fields(found, as_values(wanted))


def check_run(run: AgentRun, expected: Json) -> None:
    """The run is as `after` or `final` has it."""
    wanted = as_values(expected)
    calls, response = run.completion_calls(), run.response()
    found: Json = {
        "state": run.state(),
        "turn": run.turn(),
        "is_done": run.is_done(),
        "messages": run.messages(),
        "messages_len": len(run.messages()),
        "full_history": run.full_history(),
        "usage": run.usage(),
        "completion_calls_len": len(calls),
        "call_usages": tuple(call.usage for call in calls),
        "raws": [call.raw for call in calls],
        "finish_reasons": [call.finish_reason for call in calls],
        "output": None if response is None else response.output,
        "content": None if response is None else response.content,
        "accepted_turn": run.accepted_turn(),
        "pending_positions": [call.position for call in run.pending_tool_calls()],
        "projection_start": run.projection_start(),
        "output_tool_name": run.output_tool_name(),
        "entries": [dict(entry) for entry in run.entries()],
        "previous_model": run.previous_model(),
    }
    check_fields(found, wanted)


_READERS: dict[str, Callable[[Any], object]] = {
    "prompt": lambda given: None if given is None else read.message(given),
    "history": read.messages,
    "chat_history": read.messages,
    "messages": read.messages,
    "full_history": read.messages,
    "content": read.assistant_content,
    "choice": read.assistant_content,
    "reasoning": read.assistant_content,
    "tool_calls": read.assistant_content,
    "accepted_turn": lambda given: None if given is None else read.assistant_content(given),
    "usage": read.usage,
    "call_usages": lambda given: tuple(read.usage(item) for item in given),
    "finish_reason": read.finish_reason,
    "finish_reasons": lambda given: [read.finish_reason(item) for item in given],
    "tool_choice": read.tool_choice,
    "available_tools": tuple,
    "allowed_tools": tuple,
    "internal_call_ids": read.internal_call_ids,
}


def as_values(expected: Json) -> Json:
    """The expectations with their shorthand read."""
    return {
        key: _READERS[key](value) if key in _READERS else value for key, value in expected.items()
    }
