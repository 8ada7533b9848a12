from __future__ import annotations

from app.engine.errors import (
    CompletionError,
    InvalidRunDocument,
    MaxTurnsError,
    NonCanonicalHistory,
    PromptCancelled,
    PromptError,
    ProtocolViolation,
    UnknownToolCall,
    UnsupportedRunFormat,
)
from app.engine.messages import UserMessage
from tests.engine.run_driving import call

HISTORY = (UserMessage.of_text("question"),)


def test_every_error_of_a_run_says_what_it_is_about_and_carries_a_history() -> None:
    """agent-run.md 2.5"""
    errors: list[tuple[PromptError, str]] = [
        (
            MaxTurnsError(3, prompt=HISTORY[0], chat_history=HISTORY),
            "reached the limit of 3 turns",
        ),
        (PromptCancelled("operator stop", chat_history=HISTORY), "operator stop"),
        (
            ProtocolViolation("no", chat_history=HISTORY),
            "agent run driver protocol violation: no",
        ),
        (
            UnknownToolCall(
                "absent",
                "unknown_tool",
                available_tools=("add",),
                allowed_tools=(),
                chat_history=HISTORY,
            ),
            "the model called `absent` (unknown_tool); allowed tools: none",
        ),
        (CompletionError("response", "cut", chat_history=HISTORY, content=(call("a"),)), "cut"),
    ]
    for error, message in errors:
        assert str(error) == message
        assert error.chat_history == HISTORY


def test_a_violation_is_a_cancellation_with_its_own_reason() -> None:
    error = ProtocolViolation("no", chat_history=HISTORY)
    assert isinstance(error, PromptCancelled)
    assert error.reason == str(error)


def test_what_cannot_be_loaded_is_a_wrong_value() -> None:
    for error in (UnsupportedRunFormat, InvalidRunDocument, NonCanonicalHistory):
        assert issubclass(error, ValueError)
