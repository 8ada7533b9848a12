from __future__ import annotations

import pytest

from app.engine.commands import (
    Feedback,
    Repeat,
)
from app.engine.errors import (
    PromptCancelled,
    ProtocolViolation,
)
from app.engine.messages import AssistantMessage, UserMessage, UserText
from tests.engine.run_driving import (
    answered,
    call,
    expect_call_model,
    expect_done,
    started,
    text,
)

QUESTION = UserMessage.of_text("question")


def test_an_accepted_text_turn_can_be_replaced_and_a_turn_with_calls_cannot() -> None:
    """A198"""
    run = started()
    answered(run, text("first"))
    with pytest.raises(ProtocolViolation, match="tool-bearing"):
        run.replace_accepted_turn([call("a")])
    run.replace_accepted_turn([text("second")])
    assert run.accepted_turn() == (text("second"),)
    assert expect_done(run).output == "second"
    with_calls = started()
    answered(with_calls, call("a"))
    with pytest.raises(ProtocolViolation, match="tool-bearing"):
        with_calls.replace_accepted_turn([text("second")])
    with pytest.raises(ProtocolViolation, match="without an accepted turn"):
        started().replace_accepted_turn([text("second")])


def test_a_rejected_answer_is_forgotten_or_kept_with_the_feedback() -> None:
    """A3, A4"""
    run = started(3)
    answered(run, text("one"))
    run.retry_model_turn(Repeat())
    assert expect_call_model(run).history == ()
    answered(run, text("two"))
    run.retry_model_turn(Feedback(text="try again"))
    step = expect_call_model(run)
    assert step.prompt == UserMessage.of_text("try again")
    assert step.history == (QUESTION, AssistantMessage(content=(text("two"),)))


def test_a_turn_with_calls_is_never_sent_back() -> None:
    """A6: the rejected calls could run otherwise."""
    run = started(2)
    answered(run, call("call_1"))
    message = r"tool-bearing model turns.*tool-call hooks"
    with pytest.raises(PromptCancelled, match=message) as caught:
        run.retry_model_turn(Feedback(text="no"))
    assert type(caught.value) is PromptCancelled
    assert caught.value.chat_history == run.messages() == (QUESTION,)
    with pytest.raises(ProtocolViolation, match="already failed"):
        run.next_step()


def test_feedback_on_an_empty_answer_joins_the_prompt() -> None:
    """A194: two user messages never follow each other."""
    run = started(2)
    answered(run)
    run.retry_model_turn(Feedback(text="say something"))
    step = expect_call_model(run)
    parts = (UserText(text="question"), UserText(text="say something"))
    assert (step.prompt, step.history) == (UserMessage(content=parts), ())


def test_there_must_be_an_accepted_turn() -> None:
    with pytest.raises(ProtocolViolation, match="retry_model_turn called without an accepted turn"):
        started().retry_model_turn(Repeat())
