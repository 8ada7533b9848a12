"""Open tool batches. What the conformance cases script is not repeated here."""

from __future__ import annotations

from typing import cast

import pytest

from app.engine import texts
from app.engine.commands import Fail, Ignore, Repair, Retry, Skip, Stop
from app.engine.errors import CompletionError, PromptCancelled, ProtocolViolation
from app.engine.messages import ToolResultJson, UserContent, UserText
from app.engine.turn_policy import ToolChoice, TurnPolicy
from tests.engine.run_driving import (
    answered,
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

NOT_AN_OBJECT = texts.malformed("add", "expected a JSON object, found array")


def test_a_malformed_call_answers_itself_when_the_results_come() -> None:
    """A184"""
    run = in_batch(malformed("a"), call("b"))
    with pytest.raises(ProtocolViolation, match="`a` is malformed"):
        run.tool_results([result("a", "1"), result("b", "2")])
    run.tool_results([result("b", "2")])
    assert result_texts(expect_call_model(run).prompt) == [NOT_AN_OBJECT, "2"]


def test_a_batch_of_malformed_calls_needs_no_results() -> None:
    """A184"""
    run = in_batch(malformed("a"), malformed("b"))
    run.tool_results([])
    assert result_texts(expect_call_model(run).prompt) == [NOT_AN_OBJECT, NOT_AN_OBJECT]


def test_actions_answer_malformed_calls() -> None:
    """A184"""
    run = in_batch(*(malformed(name) for name in "abcd"))
    actions = (None, Ignore(), Retry(feedback="mend it"), Skip(reason="never mind"))
    pending = run.pending_tool_calls()
    run.answer_tool_calls(
        [one.answer_malformed(action) for one, action in zip(pending, actions, strict=True)]
    )
    answers = result_texts(expect_call_model(run).prompt)
    assert answers == [NOT_AN_OBJECT, NOT_AN_OBJECT, "mend it", "never mind"]


def test_a_malformed_call_with_the_id_of_a_good_one_is_told_apart() -> None:
    run = in_batch(malformed("same"), call("same"), call("same"))
    run.tool_results([result("same", "first"), result("same", "second")])
    assert result_texts(expect_call_model(run).prompt) == [NOT_AN_OBJECT, "first", "second"]


@pytest.mark.parametrize("action", [Fail(), Repair(tool_name="add")])
def test_a_name_cannot_mend_arguments(action: Fail | Repair) -> None:
    """A186"""
    run = in_batch(malformed("a"), call("b"))
    bad, good = run.pending_tool_calls()
    with pytest.raises(CompletionError, match="not a JSON object") as caught:
        run.answer_tool_calls([good.answer("kept"), bad.answer_malformed(action)])
    assert run.state() == "failed"
    assert caught.value.chat_history == run.full_history()
    assert result_texts(run.messages()[-1]) == [texts.INTERRUPTED, "kept"]
    assert caught.value.content == (malformed("a"), call("b"))


def test_the_first_ending_answer_in_call_order_wins() -> None:
    """A181"""
    run = in_batch(call("a"), malformed("b"), malformed("c"), call("d"))
    a, b, c, _ = run.pending_tool_calls()
    with pytest.raises(PromptCancelled) as caught:
        run.answer_tool_calls(
            [
                c.answer_malformed(Stop(reason="second")),
                b.answer_malformed(Stop(reason="first")),
                a.answer("kept"),
            ]
        )
    assert type(caught.value) is PromptCancelled
    assert caught.value.reason == "first"
    interrupted = [texts.INTERRUPTED] * 3
    assert result_texts(caught.value.chat_history[-1]) == ["kept", *interrupted]


def test_answers_of_any_shape_are_kept_verbatim() -> None:
    run = in_batch(call("a"))
    (pending,) = run.pending_tool_calls()
    run.answer_tool_call(pending.answer((ToolResultJson(value={"b": [1]}),)))
    (answer,) = expect_call_model(run).prompt.content
    assert answer.type == "tool_result"
    assert answer.content == (ToolResultJson(value={"b": [1]}),)
    assert (answer.call, answer.name) == ("a", "add")


def test_results_take_their_name_and_provider_from_the_call() -> None:
    """agent-run.md 5.6"""
    run = in_batch(call("a"))
    forged = result("a", "1", name="other").model_copy(update={"provider": None})
    run.tool_results([forged])
    assert expect_call_model(run).prompt.content == (result("a", "1"),)


def test_an_empty_list_of_answers_does_nothing() -> None:
    """A159"""
    run = in_batch(call("a"))
    before = run.dump()
    run.answer_tool_calls([])
    assert run.dump() == before


def test_no_open_call_is_pending_outside_a_batch() -> None:
    run = in_batch(text("note"), call("a"))
    assert [pending.position for pending in run.pending_tool_calls()] == [1]
    run.tool_results([result("a", "1")])
    assert run.pending_tool_calls() == ()


def test_a_stop_keeps_what_was_answered_and_the_batch_can_go_on() -> None:
    """A178, A207"""
    run = in_batch(call("a"), call("b"))
    _, b = run.pending_tool_calls()
    run.answer_tool_call(b.answer("2"))
    error = run.cancel_error("stop")
    assert result_texts(error.chat_history[-1]) == [texts.INTERRUPTED, "2"]
    assert [one.tool_call.id for one in expect_call_tools(run).calls] == ["a"]


def test_the_last_turn_of_the_budget_is_announced() -> None:
    """A193"""
    run = started(2)
    answered(run, call("a"))
    assert not expect_call_tools(run).final_turn
    run.tool_results([result("a", "1")])
    expect_call_model(run)
    answered(run, call("b"))
    assert expect_call_tools(run).final_turn
    run.max_turns(3)
    assert not expect_call_tools(run).final_turn


def test_results_that_do_not_fit_are_refused_and_a_fitting_list_is_taken() -> None:
    """A21, A26"""
    run = in_batch(call("a"), call("b"))
    before = run.dump()
    for results, message in (
        ([], "produced no tool results"),
        ([UserText(text="plain")], "not a tool result"),
        ([result("nope", "1"), result("b", "2")], "`nope` is not a call of this turn"),
        ([result("a", "1"), result("a", "1")], "`a` is already answered"),
        ([result("b", "2")], "unanswered tool calls: `a`"),
    ):
        with pytest.raises(ProtocolViolation, match=message):
            run.tool_results(cast("list[UserContent]", results))
        assert run.dump() == before
    run.tool_results([result("b", "2"), result("a", "1")])
    assert result_texts(expect_call_model(run).prompt) == ["1", "2"]


def test_answers_that_do_not_fit_are_refused() -> None:
    """A160, A162, A180, A182, A183"""
    run = in_batch(call("a"), malformed("b"))
    a, b = run.pending_tool_calls()
    for answers, message in (
        ([a.answer("1").model_copy(update={"turn": 7})], "an answer of turn 7 was given in turn 1"),
        ([a.answer("1").model_copy(update={"position": 5})], "no call `a` at position 5"),
        ([a.answer("1").model_copy(update={"call": "c"})], "no call `c` at position 0"),
        ([a.answer("1"), a.answer("1")], "position 0 is already answered"),
        ([a.answer_malformed()], "position 0 is of the wrong kind"),
        ([a.answer("1"), b.answer("2")], "position 1 is of the wrong kind"),
    ):
        with pytest.raises(ProtocolViolation, match=message):
            run.answer_tool_calls(answers)
        assert len(run.pending_tool_calls()) == 2
    run.answer_tool_call(a.answer("1"))
    with pytest.raises(ProtocolViolation, match="position 0 is already answered"):
        run.answer_tool_call(a.answer("1"))
    run.tool_results([])
    assert result_texts(expect_call_model(run).prompt) == ["1", NOT_AN_OBJECT]


def test_answers_need_an_open_batch() -> None:
    with pytest.raises(ProtocolViolation, match="called without a pending CallTools"):
        started().tool_results([])
    with pytest.raises(ProtocolViolation, match="called without a pending CallTools"):
        started().answer_tool_calls([])


def test_a_malformed_call_can_be_explained_while_its_batch_is_open() -> None:
    run = in_batch(malformed("a"))
    context = run.malformed_tool_call_context(run.pending_tool_calls()[0])
    assert (context.reason, context.allowed_tools) == ("malformed_arguments", ("add",))
    assert context.available_tools == ("add",)
    assert context.tool_choice is None


def test_a_malformed_context_tells_how_free_the_model_was() -> None:
    run = started()
    required = ToolChoice(mode="required")
    run.model_response(
        turn(malformed("a"), policy=TurnPolicy(executable_tools=("add",), tool_choice=required))
    )
    expect_call_tools(run)
    context = run.malformed_tool_call_context(run.pending_tool_calls()[0])
    assert context.tool_choice == required
