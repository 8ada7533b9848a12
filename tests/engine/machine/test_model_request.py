from __future__ import annotations

import pytest

from app.engine.agent_run import AgentRun
from app.engine.errors import (
    MaxTurnsError,
    ProtocolViolation,
)
from app.engine.messages import AssistantMessage, UserMessage
from tests.engine.run_driving import (
    answered,
    expect_call_model,
    text,
)

QUESTION = UserMessage.of_text("question")


def test_a_provider_error_leaves_no_record_and_the_turn_is_asked_for_again() -> None:
    """A147, A219"""
    run = AgentRun.new("question")
    first = expect_call_model(run)
    assert run.reissue() == run.reissue() == first
    assert (run.turn(), run.completion_calls()) == (1, ())
    answered(run, text("answer"))
    with pytest.raises(ProtocolViolation, match="reissue called without a pending CallModel"):
        run.reissue()


def test_a_run_loaded_while_a_call_was_out_asks_for_it_again_once() -> None:
    """A176"""
    run = AgentRun.new("question")
    first = expect_call_model(run)
    loaded = AgentRun.load(run.dump())
    twin = loaded.clone()
    for restored in (loaded, twin):
        assert restored.next_step() == first
        assert restored.turn() == 1
        with pytest.raises(ProtocolViolation, match="a model response is pending"):
            restored.next_step()


def test_without_a_budget_no_turn_begins() -> None:
    """A9, A192"""
    run = AgentRun.new("question").max_turns(0)
    for _ in range(2):
        with pytest.raises(MaxTurnsError) as caught:
            run.next_step()
        assert (caught.value.max_turns, caught.value.prompt) == (0, QUESTION)
        assert caught.value.chat_history == (QUESTION,)
        assert run.turn() == 0
    assert expect_call_model(run.max_turns(1)).prompt == QUESTION


def test_the_request_is_everything_before_the_prompt_and_the_prompt() -> None:
    """A2"""
    earlier = (UserMessage.of_text("earlier"), AssistantMessage(content=(text("reply"),)))
    step = expect_call_model(AgentRun.new("question").with_history(earlier))
    assert (step.history, step.prompt, step.turn) == (earlier, QUESTION, 1)
