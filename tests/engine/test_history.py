from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.engine.errors import NonCanonicalHistory
from app.engine.history import require_canonical, text_result
from app.engine.messages import (
    AssistantContent,
    AssistantMessage,
    Message,
    SystemMessage,
    UserContent,
    UserMessage,
    UserText,
)
from tests.engine.run_driving import call, result, text


def assistant(*content: AssistantContent) -> AssistantMessage:
    return AssistantMessage(content=content)


def user(*content: UserContent) -> UserMessage:
    return UserMessage(content=content or (UserText(text="hello"),))


@dataclass(frozen=True)
class Case:
    id: str
    history: tuple[Message, ...]
    fault: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Case("empty", ()),
        Case("system", (SystemMessage(text="be brief"), user())),
        Case("two-users", (user(), user(), assistant(text("hi")))),
        Case("answered", (assistant(call("a")), user(result("a", "1")))),
        Case(
            "answered-in-company",
            (assistant(call("a")), user(result("a", "1"), UserText(text="!"))),
        ),
        Case(
            "answered-out-of-order",
            (assistant(call("a"), call("b")), user(result("b", "2"), result("a", "1"))),
        ),
        Case(
            "duplicate-ids",
            (assistant(call("a"), call("a")), user(result("a", "1"), result("a", "2"))),
        ),
    ],
    ids=lambda case: case.id,
)
def test_a_canonical_history_is_accepted(case: Case) -> None:
    """A165"""
    require_canonical(case.history)


@pytest.mark.parametrize(
    "case",
    [
        Case(
            "two-assistants", (assistant(text("a")), assistant(text("b"))), "consecutive assistant"
        ),
        Case("open-at-the-end", (assistant(call("a")),), "unanswered tool calls at the end: `a`"),
        Case("open-in-the-middle", (assistant(call("a")), user()), "message 1: unanswered.*`a`"),
        Case(
            "answered-too-late",
            (assistant(call("a")), SystemMessage(text="s"), user(result("a", "1"))),
            "message 1: unanswered",
        ),
        Case("orphan", (user(result("a", "1")),), "message 0: orphan tool results: `a`"),
        Case(
            "answered-twice",
            (assistant(call("a")), user(result("a", "1"), result("a", "2"))),
            "orphan",
        ),
        Case(
            "one-of-two-equal-ids",
            (assistant(call("a"), call("a")), user(result("a", "1"))),
            "unanswered",
        ),
        Case("all-faults-are-listed", (assistant(call("b"), call("a")),), "`a`, `b`"),
    ],
    ids=lambda case: case.id,
)
def test_any_other_history_is_refused_with_its_first_fault(case: Case) -> None:
    """A165"""
    with pytest.raises(NonCanonicalHistory, match=case.fault):
        require_canonical(case.history)


def test_a_text_result_is_the_result_of_its_call() -> None:
    assert text_result(call("a"), "1") == result("a", "1")
