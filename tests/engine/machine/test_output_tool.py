"""Output tool mode. What the conformance cases script is not repeated here."""

from __future__ import annotations

import pytest

from app.engine import texts
from app.engine.agent_run import AgentRun
from app.engine.errors import CompletionError
from app.engine.messages import AssistantMessage, UserMessage
from app.engine.turn_policy import TurnPolicy
from app.engine.usage import FinishReason
from tests.engine.run_driving import (
    call,
    expect_call_model,
    expect_call_tools,
    expect_done,
    malformed,
    result,
    result_texts,
    text,
    thought,
    turn,
)

OUTPUT = TurnPolicy(executable_tools=("add",), output_tool="final_result")
SUMMARY: dict[str, object] = {"required": ["summary"]}


def output_run(max_turns: int, retries: int, schema: dict[str, object] | None = None) -> AgentRun:
    run = AgentRun.new("question").max_turns(max_turns).with_output_validation(schema, retries)
    expect_call_model(run)
    return run


def test_malformed_output_is_asked_for_again_and_then_an_error() -> None:
    """A32, A185"""
    run = output_run(3, 1)
    raw = '"complete"'
    run.model_response(turn(malformed("a", raw, "final_result"), call("b"), policy=OUTPUT))
    step = expect_call_model(run)
    error = "expected a JSON object, found string"
    assert result_texts(step.prompt) == [
        texts.malformed("final_result", error),
        texts.NOT_EXECUTED,
    ]
    rejected = malformed("c", raw, "final_result")
    run.model_response(turn(rejected, policy=OUTPUT))
    with pytest.raises(CompletionError, match=r"`final_result`.*not a JSON object") as caught:
        run.next_step()
    assert caught.value.content == (rejected,)
    assert caught.value.chat_history == run.messages()
    assert run.state() == "failed"


def test_malformed_output_is_an_error_when_the_turns_are_used_up() -> None:
    """A185"""
    run = output_run(1, 5)
    run.model_response(turn(malformed("a", "[]", "final_result"), policy=OUTPUT))
    with pytest.raises(CompletionError):
        run.next_step()


def test_a_real_tool_turn_gives_the_output_retries_back() -> None:
    """A190"""
    run = output_run(9, 1, SUMMARY)
    run.model_response(turn(text("prose"), policy=OUTPUT))
    assert expect_call_model(run).prompt == UserMessage.of_text(texts.output_text("final_result"))
    run.model_response(turn(call("a"), policy=OUTPUT))
    expect_call_tools(run)
    run.tool_results([result("a", "1")])
    expect_call_model(run)
    run.model_response(turn(text("prose"), policy=OUTPUT))
    assert expect_call_model(run).turn == 4
    run.model_response(turn(text("prose"), policy=OUTPUT))
    assert expect_done(run).output == "prose"


def test_the_response_counts_the_output_calls_in_memory_only() -> None:
    """A31, A114"""
    run = output_run(1, 0)
    first, second = call("a", "final_result", z="é"), call("b", "final_result")
    run.model_response(turn(thought("why"), first, second, policy=OUTPUT))
    response = expect_done(run)
    assert response.output == '{"z":"é"}'
    assert response.output_tool_calls == 2
    assert expect_done(run).output_tool_calls == 2
    assert response.content == (thought("why"), text('{"z":"é"}'))
    assert response.messages[-1] == AssistantMessage(content=response.content)
    assert "output_tool_calls" not in response.model_dump()
    loaded = AgentRun.load(run.dump()).response()
    assert loaded == response
    assert loaded is not None
    assert loaded.output_tool_calls == 0
    assert response != "a response"


def test_text_that_passes_the_schema_is_taken_unchanged() -> None:
    """A37, A191"""
    run = output_run(9, 5, SUMMARY)
    for rejected in ("42", '{"other": 1}', "{", "[]"):
        run.model_response(turn(text(rejected), policy=OUTPUT))
        expect_call_model(run)
    run.model_response(turn(text(' {"summary": 1} '), policy=OUTPUT))
    assert expect_done(run).output == ' {"summary": 1} '


def test_an_empty_turn_finishes_without_a_re_prompt() -> None:
    """agent-run.md 7"""
    run = output_run(9, 5, SUMMARY)
    run.model_response(turn(policy=OUTPUT))
    assert expect_done(run).output == ""


def test_output_cut_by_length_is_validated_like_any_other() -> None:
    """A189"""
    run = output_run(2, 1, SUMMARY)
    cut = turn(call("a", "final_result", x=1), policy=OUTPUT, finish=FinishReason(kind="length"))
    run.model_response(cut)
    assert "missing required field(s): summary" in result_texts(expect_call_model(run).prompt)[0]
