"""The document of a run, and what must hold in one beyond its structure (agent-run.md 12).

A document that passes drives like the run that wrote it: no method meets a state it cannot explain.
Each check raises `InvalidRunDocument` with the path of what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from app.engine.document import read_document, write_document, write_document_text
from app.engine.errors import InvalidRunDocument, NonCanonicalHistory
from app.engine.history import require_canonical
from app.engine.json.output_schema import require_usable
from app.engine.machine.record import (
    AwaitingAdvance,
    AwaitingModel,
    ExecutingTools,
    PreparingRequest,
    ResolvingToolCalls,
    RunDone,
    RunFailed,
    RunRecord,
)
from app.engine.messages import AssistantMessage, ToolCall, UserMessage
from app.engine.turn_content import tool_calls
from app.engine.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.engine.machine.record import Content, SkippedCall
    from app.engine.messages import ToolResult
    from app.engine.turn_policy import TurnPolicy

KIND: Final = "agent_run"


def write_run(record: RunRecord) -> dict[str, object]:
    """The document of a run."""
    return write_document(KIND, record)


def write_run_text(record: RunRecord) -> str:
    """The document of a run as JSON text."""
    return write_document_text(KIND, record)


def read_run(data: object) -> RunRecord:
    """The run of a document. Raises `UnsupportedRunFormat` or `InvalidRunDocument`."""
    record = read_document(data, KIND, model=RunRecord)
    _check_bill(record)
    _check_schema(record)
    _check_messages(record)
    _check_state(record)
    return record


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise InvalidRunDocument(fault)


def _check_bill(record: RunRecord) -> None:
    total = Usage()
    for index, call in enumerate(record.completion_calls):
        _require(call.call_index == index, f"completion_calls/{index}/call_index: not contiguous")
        total += call.usage
    _require(record.usage == total, "usage: not the sum of the completion calls")


def _check_schema(record: RunRecord) -> None:
    if record.config.output_schema is None:
        return
    try:
        require_usable(record.config.output_schema)
    except ValueError as error:
        raise InvalidRunDocument(f"config/output_schema: {error}") from error


def _check_messages(record: RunRecord) -> None:
    for index, message in enumerate(record.messages):
        role = UserMessage if index % 2 == 0 else AssistantMessage
        _require(isinstance(message, role), f"messages/{index}: expected {role.__name__}")
    try:
        require_canonical(record.input_history)
        require_canonical(record.full_history())
    except NonCanonicalHistory as error:
        raise InvalidRunDocument(f"messages: {error}") from error


def _check_state(record: RunRecord) -> None:
    state = record.state
    ends_with_user = isinstance(record.messages[-1], UserMessage)
    if not isinstance(state, ExecutingTools | RunDone):
        _require(ends_with_user, "messages: the last one is no prompt")
    if isinstance(state, PreparingRequest):
        _check_start(record, state)
        return
    _require(record.turn > 0, "turn: the run has begun one")
    match state:
        case AwaitingModel():
            _require(bool(record.completion_calls) or not state.recorded, "state/recorded: no call")
        case ResolvingToolCalls():
            _require(bool(record.completion_calls), "completion_calls: the turn has none")
            _check_parked(state)
        case AwaitingAdvance():
            _require(bool(record.completion_calls), "completion_calls: the turn has none")
            _check_accepted(state)
        case ExecutingTools():
            _check_batch(record, state)
        case RunDone() | RunFailed():
            pass
        case _:
            assert_never(state)


def _check_start(record: RunRecord, state: PreparingRequest) -> None:
    if record.turn == 0:
        untouched = len(record.messages) == 1 and not record.completion_calls
        _require(untouched and not state.rollback_owed, "turn: the run has begun one")


def _check_parked(state: ResolvingToolCalls) -> None:
    calls = dict(tool_calls(state.items))
    place = state.next_position
    _require(
        place in calls and not state.policy.allows(calls[place].name),
        "state/next_position: not an invalid call",
    )
    _check_working_copy(state)
    _check_skipped(state.skipped, state.items)
    _check_positions(state.ignored, state.items, path="state/ignored")
    decided = {skip.position for skip in state.skipped}
    _require(decided.isdisjoint(state.ignored), "state/ignored: skipped as well")
    decided.update(state.ignored)
    _require(all(position < place for position in decided), "state/skipped: not decided on yet")
    earlier = {at: call for at, call in calls.items() if at < place and at not in decided}
    _check_names(earlier, state.policy)
    recovered = bool(state.skipped) or state.items != state.original
    _require(state.recovered == recovered, "state/recovered: not as the items have it")


def _check_working_copy(state: ResolvingToolCalls) -> None:
    """`items` may differ from `original` in the names of calls before the parked one only."""
    same = tuple(
        sent.renamed(now.name) if isinstance(sent, ToolCall) and isinstance(now, ToolCall) else sent
        for sent, now in zip(state.original, state.items, strict=False)
    )
    _require(
        same == state.items
        and len(state.original) == len(state.items)
        and state.original[state.next_position :] == state.items[state.next_position :],
        "state/items: not the original with repairs",
    )


def _check_accepted(state: AwaitingAdvance) -> None:
    _check_skipped(state.skipped, state.items)
    _check_positions(
        [known.position for known in state.internal_call_ids],
        state.items,
        path="state/internal_call_ids",
    )
    skipped = {skip.position for skip in state.skipped}
    calls = dict(tool_calls(state.items))
    _check_names({at: call for at, call in calls.items() if at not in skipped}, state.policy)


def _check_batch(record: RunRecord, state: ExecutingTools) -> None:
    last = record.messages[-1]
    held = tool_calls(last.content) if isinstance(last, AssistantMessage) else ()
    slots = tuple((slot.position, slot.tool_call) for slot in state.slots)
    _require(slots == held, "state/slots: not the calls of the last message")
    _require(any(slot.answer is None for slot in state.slots), "state/slots: none is open")
    _check_names(dict(held), state.policy)
    for slot in state.slots:
        if slot.answer is not None:
            _check_result(slot.answer, slot.tool_call, path="state/slots")


def _check_skipped(skipped: tuple[SkippedCall, ...], items: Content) -> None:
    _check_positions([skip.position for skip in skipped], items, path="state/skipped")
    calls = dict(tool_calls(items))
    for skip in skipped:
        _check_result(skip.result, calls[skip.position], path="state/skipped")


def _check_result(result: ToolResult, call: ToolCall, *, path: str) -> None:
    given = (result.call, result.name, result.provider)
    _require(given == (call.id, call.name, call.provider), f"{path}: not a result of its call")


def _check_positions(positions: Iterable[int], items: Content, *, path: str) -> None:
    given = list(positions)
    _require(given == sorted(set(given)), f"{path}: positions not strictly increasing")
    calls = dict(tool_calls(items))
    _require(all(position in calls for position in given), f"{path}: not the position of a call")


def _check_names(calls: dict[int, ToolCall], policy: TurnPolicy) -> None:
    for position, call in calls.items():
        _require(policy.allows(call.name), f"state: the call at position {position} is not allowed")
