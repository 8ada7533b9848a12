"""P7, P11, P13, P16, P18 and P20. P1 to P6, P9, P12, P14, P15 are in `test_run_machine`, P2 and P10
in `test_legality`, P8 and P17 in `test_assembler_properties`, P19 in `test_commands`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.agent_run import AgentRun
from app.engine.commands import CallModel, CallTools, Done, NeedsResolution, Repair, Skip
from app.engine.errors import (
    InvalidRunDocument,
    MaxTurnsError,
    PromptError,
    UnsupportedRunFormat,
)
from app.engine.json.text import thaw
from app.engine.messages import UserMessage
from app.engine.streaming.assembler import StreamedTurnAssembler
from app.engine.streaming.items import (
    FinalItem,
    InvalidToolCall,
    StreamItem,
    TextItem,
    ToolCallItem,
)
from app.engine.turn_policy import TurnPolicy
from tests.engine.machine.run_states import EVERY_STATE
from tests.engine.machine.run_strategies import ACTIONS, MENDING, TURNS, USAGES, new_runs
from tests.engine.run_driving import (
    ADD,
    call,
    expect_call_model,
    expect_call_tools,
    in_batch,
    malformed,
    result,
    result_texts,
    started,
    text,
    turn,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.engine.commands import InvalidToolCallAction, ModelTurn
    from app.engine.messages import ToolCall
    from app.engine.usage import Usage


def next_of(run: AgentRun) -> object:
    try:
        return run.next_step()
    except PromptError as error:
        return type(error), error.chat_history


def budgeted() -> AgentRun:
    run = AgentRun.new("question").max_turns(2).max_invalid_tool_call_retries(1)
    expect_call_model(run)
    return run


def buffered_run(
    said: str, calls: list[ToolCall], action: InvalidToolCallAction, usage: Usage
) -> AgentRun:
    run = budgeted()
    prose = (text(said),) if said else ()
    run.model_response(turn(*prose, *calls, usage=usage))
    run.resolve_invalid_tool_call(action)
    return run


def streamed_run(
    said: str, calls: list[ToolCall], action: InvalidToolCallAction, usage: Usage
) -> AgentRun:
    run = budgeted()
    assembler = StreamedTurnAssembler(run.effective_policy(ADD))
    items: list[StreamItem] = [TextItem(text=said)] if said else []
    items += [
        ToolCallItem(tool_call=one, internal_call_id=f"i{at}") for at, one in enumerate(calls)
    ]
    *_, last = (event for item in items for event in assembler.ingest(item))
    assert isinstance(last, InvalidToolCall)
    assembler.resolve_pending_invalid(
        run.resolve_streamed_invalid_tool_call(assembler.partial_turn(None), last.invalid, action)
    )
    assembler.ingest(FinalItem(usage=usage, raw=None))
    run.record_streamed_completion_call(usage)
    if run.state() == "awaiting_model":
        run.streamed_turn(assembler.finish(None, (text(said),) if said else ()))
    return run


@settings(max_examples=60, deadline=None)
@given(
    said=st.sampled_from(["", "thinking"]),
    good=st.lists(st.builds(call, st.sampled_from("ab")), max_size=3),
    action=MENDING.filter(lambda action: action != Repair(tool_name="unknown")),
    usage=USAGES,
)
def test_buffered_and_streamed_runs_agree_if_the_invalid_call_comes_last(
    said: str, good: list[ToolCall], action: InvalidToolCallAction, usage: Usage
) -> None:
    """P7, A203"""
    if isinstance(action, Repair):
        action = Repair(tool_name="add")
    calls = [*good, call("bad", "unknown")]
    buffered = buffered_run(said, calls, action, usage)
    streamed = streamed_run(said, calls, action, usage)
    first, second = next_of(buffered), next_of(streamed)
    assert type(first) is type(second)
    if not isinstance(first, CallTools):  # Those differ in the ids of the stream.
        assert first == second
    assert buffered.messages() == streamed.messages()
    assert buffered.usage() == streamed.usage()


@settings(max_examples=60, deadline=None)
@given(
    calls=st.lists(st.sampled_from("ab"), min_size=1, max_size=5),
    data=st.data(),
)
def test_answers_may_come_in_any_order_and_grouping(calls: list[str], data: st.DataObject) -> None:
    """P11"""
    run = in_batch(*(call(one) for one in calls))
    waiting = data.draw(st.permutations(run.pending_tool_calls()))
    while waiting:
        group = data.draw(st.integers(1, len(waiting)))
        run.answer_tool_calls([one.answer(f"r{one.position}") for one in waiting[:group]])
        waiting = waiting[group:]
    expected = [f"r{position}" for position in range(len(calls))]
    assert result_texts(expect_call_model(run).prompt) == expected


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(["a", "b", "c", "d"]))
def test_results_with_ids_of_their_own_may_come_in_any_order(order: list[str]) -> None:
    """P11, A82"""
    run = in_batch(*(call(one) for one in "abcd"))
    run.tool_results([result(one, f"r{one}") for one in order])
    assert result_texts(expect_call_model(run).prompt) == ["ra", "rb", "rc", "rd"]


@settings(max_examples=60, deadline=None)
@given(run=new_runs(), turns=st.lists(TURNS, min_size=8, max_size=8), data=st.data())
def test_a_driver_that_answers_everything_comes_to_an_end(
    run: AgentRun, turns: list[ModelTurn], data: st.DataObject
) -> None:
    """P3, P13, P18: the loop is bounded because every turn takes at most three commands."""
    for _ in range(3 * 9):
        try:
            match run.next_step():
                case CallModel(turn=number):
                    outcome = run.model_response(turns[number - 1])
                    while isinstance(outcome, NeedsResolution):
                        outcome = run.resolve_invalid_tool_call(data.draw(ACTIONS))
                case CallTools(calls=calls):
                    run.answer_tool_calls(
                        [
                            one.answer("r") if one.kind == "execute" else one.answer_malformed()
                            for one in calls
                        ]
                    )
                case Done():
                    return
        except MaxTurnsError as error:
            assert_budget_can_be_raised(run, error)
            return
        except PromptError:
            assert run.state() == "failed"
            return
    pytest.fail("the run did not come to an end")


def assert_budget_can_be_raised(run: AgentRun, error: MaxTurnsError) -> None:
    with pytest.raises(MaxTurnsError) as again:
        run.next_step()
    assert (again.value.prompt, again.value.chat_history) == (error.prompt, error.chat_history)
    assert expect_call_model(run.max_turns(run.turn() + 1)).prompt == error.prompt


def test_what_was_given_and_what_was_got_cannot_change_a_run() -> None:
    """P16, A204"""
    arguments: dict[str, Any] = {"x": [1]}
    raw: dict[str, Any] = {"body": [1]}
    run = started(2)
    run.model_response(turn(call("a", **arguments), malformed("b"), raw=raw))
    batch = expect_call_tools(run)
    before = run.dump_json()
    arguments["x"].append(2)
    raw["body"].append(2)
    arguments_got: Any = batch.calls[0].tool_call.function.arguments
    raw_got: Any = run.completion_calls()[0].raw
    for held in (arguments_got, raw_got):
        with pytest.raises(TypeError, match="cannot be changed"):
            held["new"] = 1
        copied = thaw(held)
        copied["new"] = 1
    document: Any = run.dump()
    document["messages"].clear()
    run.clone().tool_results([result("a", "1")])
    assert run.dump_json() == before


def paths(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything below the top of a JSON value."""
    found: list[tuple[Any, ...]] = []
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in entries:
        found.append((*above, key))
        if isinstance(inner, dict | list):
            found.extend(paths(inner, (*above, key)))
    return found


CHANGES = st.one_of(
    st.sampled_from([None, True, 0, 1, 2, 9, -1, 1.5, "", "add", "done", [], {}, [1], {"a": 1}]),
    st.sampled_from(["\ud800", float("nan"), 2**5000, 1e300]),
)


@settings(max_examples=300, deadline=None)
@given(build=st.sampled_from(EVERY_STATE), change=CHANGES, data=st.data())
def test_a_changed_document_loads_to_a_valid_run_or_is_refused(
    build: Callable[[], AgentRun], change: object, data: st.DataObject
) -> None:
    """P20"""
    document: Any = build().dump()
    *above, last = data.draw(st.sampled_from(paths(document)))
    parent = document
    for step in above:
        parent = parent[step]
    if data.draw(st.booleans()):
        parent[last] = change
    else:
        del parent[last]
    try:
        run = AgentRun.load(document)
    except (InvalidRunDocument, UnsupportedRunFormat):
        return
    assert AgentRun.load(run.dump()) == run
    drive_a_little(run)


def drive_a_little(run: AgentRun) -> None:
    """Nothing but the errors of a run may come of driving it."""
    try:
        if run.pending_invalid_tool_call() is not None:
            run.resolve_invalid_tool_call(Skip(reason="no"))
        match run.next_step():
            case CallModel():
                run.model_response(turn(text("{}"), policy=TurnPolicy()))
                run.next_step()
            case CallTools(calls=calls):
                executed = [one for one in calls if one.kind == "execute"]
                run.tool_results([result(one.tool_call.id, "r") for one in executed])
            case Done(response=response):
                assert response == run.response()
    except PromptError:
        assert isinstance(run.messages()[0], UserMessage)
