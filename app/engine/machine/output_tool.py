"""Output tool mode: a synthetic tool whose arguments are the answer (agent-run.md 7).

The first call of the output tool counts and its siblings are dropped; plain text in its place is
asked for again. When no further re-prompt is possible the run finishes with what there is, and the
caller validates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine import texts
from app.engine.errors import CompletionError
from app.engine.history import text_result
from app.engine.json.output_schema import failures
from app.engine.json.text import FrozenObject, compact_json, parse_json
from app.engine.machine.model_request import request_turn
from app.engine.machine.record import PreparingRequest, RunDone
from app.engine.machine.transition import Raised
from app.engine.messages import AssistantMessage, AssistantText, ToolCall, UserMessage
from app.engine.turn_content import is_empty_turn, joined_text, tool_calls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.engine.commands import CallModel
    from app.engine.machine.record import AwaitingAdvance, RunRecord
    from app.engine.machine.transition import Transition
    from app.engine.messages import AssistantContent


def output_call(turn: AwaitingAdvance) -> tuple[int, ToolCall] | None:
    """The call of the output tool that counts, with its position."""
    return next(
        (place for place in tool_calls(turn.items) if place[1].name == turn.policy.output_tool),
        None,
    )


def output_calls(turn: AwaitingAdvance) -> int:
    """How often the turn calls the output tool."""
    return sum(call.name == turn.policy.output_tool for _, call in tool_calls(turn.items))


def take_output(
    record: RunRecord, turn: AwaitingAdvance, *, position: int, call: ToolCall
) -> RunDone | Transition[CallModel]:
    """The end of the run with the arguments of `call` as output, or a step to better ones."""
    feedback = _fault(record, call)
    if feedback is not None and _may_reprompt(record):
        return _ask_again(record, turn, position=position, feedback=feedback)
    if call.is_malformed:
        text = f"output tool `{call.name}`: the arguments are not a JSON object: "
        error = CompletionError(
            "response",
            text + (call.function.error or ""),
            chat_history=record.full_history(),
            content=turn.items,
        )
        return Raised(record.failed(), error)
    output = compact_json(call.function.arguments)
    return RunDone(output=output, content=answer_content(turn.items, call))


def answer_content(
    items: Iterable[AssistantContent], call: ToolCall
) -> tuple[AssistantContent, ...]:
    """What history keeps of a turn that answered by `call`: no call, and the answer as text."""
    prose = (part for part in items if not isinstance(part, ToolCall))
    return (*prose, AssistantText(text=compact_json(call.function.arguments)))


def wants_output_call(record: RunRecord, turn: AwaitingAdvance) -> bool:
    """Whether a turn without calls is to be asked for the output tool."""
    if turn.policy.output_tool is None or is_empty_turn(turn.items) or not _may_reprompt(record):
        return False
    return not _is_acceptable(record, joined_text(turn.items))


def ask_for_output_call(record: RunRecord, turn: AwaitingAdvance) -> Transition[CallModel]:
    """Keep the text and ask for a call of the output tool."""
    feedback = texts.output_text(turn.policy.output_tool or "")
    return _reprompt(record, turn, feedback=UserMessage.of_text(feedback))


def _may_reprompt(record: RunRecord) -> bool:
    return (
        record.counters.output_retries < record.config.max_output_retries
        and record.turn < record.config.max_turns
    )


def _fault(record: RunRecord, call: ToolCall) -> str | None:
    if call.function.error is not None:
        return texts.malformed(call.name, call.function.error)
    found = failures(record.config.output_schema, call.function.arguments)
    if not found.any():
        return None
    return texts.output_feedback(call.name, missing=found.missing, problems=found.problems)


def _is_acceptable(record: RunRecord, text: str) -> bool:
    try:
        value = parse_json(text.strip())
    except ValueError:
        return False
    return (
        isinstance(value, FrozenObject) and not failures(record.config.output_schema, value).any()
    )


def _ask_again(
    record: RunRecord, turn: AwaitingAdvance, *, position: int, feedback: str
) -> Transition[CallModel]:
    results = tuple(
        text_result(call, feedback if place == position else texts.NOT_EXECUTED)
        for place, call in tool_calls(turn.items)
    )
    return _reprompt(record, turn, feedback=UserMessage(content=results))


def _reprompt(
    record: RunRecord, turn: AwaitingAdvance, *, feedback: UserMessage
) -> Transition[CallModel]:
    answered = record.counting(output_retries=record.counters.output_retries + 1).entering(
        PreparingRequest(), AssistantMessage(id=turn.message_id, content=turn.items), feedback
    )
    return request_turn(answered)
