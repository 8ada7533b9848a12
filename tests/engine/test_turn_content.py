from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from app.engine.messages import AssistantImage, AssistantText
from app.engine.turn_content import delivered_no_answer, is_empty_turn, joined_text, tool_calls
from tests.engine.run_driving import call, text, thought

if TYPE_CHECKING:
    from app.engine.messages import AssistantContent

ANNOTATED = AssistantText(text="", additional_params={"c": 1})


@dataclass(frozen=True)
class Case:
    id: str
    content: tuple[AssistantContent, ...]
    empty: bool
    no_answer: bool


@pytest.mark.parametrize(
    "case",
    [
        Case("no-parts", (), True, True),
        Case("one-empty-text", (text(""),), True, True),
        Case("empty-params", (AssistantText(text="", additional_params={}),), True, True),
        Case("annotated-empty-text", (ANNOTATED,), False, True),
        Case("reasoning", (thought("why"),), False, True),
        Case("reasoning-and-empty-text", (thought("why"), text("")), False, True),
        Case("two-empty-texts", (text(""), text("")), False, True),
        Case("text", (text("a"),), False, False),
        Case("reasoning-and-text", (thought("why"), text("a")), False, False),
        Case("call", (call("c"),), False, False),
        Case("image", (AssistantImage(source="data:x"),), False, False),
    ],
    ids=lambda case: case.id,
)
def test_the_two_predicates_differ_as_the_table_says(case: Case) -> None:
    """A104, A105"""
    assert is_empty_turn(case.content) is case.empty
    assert delivered_no_answer(case.content) is case.no_answer


def test_calls_come_with_their_positions_in_the_content() -> None:
    content = (text("a"), call("c1"), thought("b"), call("c2"))
    assert tool_calls(content) == ((1, call("c1")), (3, call("c2")))


def test_texts_are_joined_without_a_separator() -> None:
    """A111"""
    assert joined_text((text("ab"), call("c"), text("cd"))) == "abcd"
