"""What a summariser is given, and what is made of its answer (run-context.md 10)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from app.engine.messages import (
    AssistantMessage,
    AssistantText,
    Function,
    Reasoning,
    ReasoningText,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolResultImage,
    ToolResultJson,
    ToolResultText,
    UserImage,
    UserMessage,
    UserText,
)
from app.runctx.condense import condensed, cut, items_of

if TYPE_CHECKING:
    from app.engine.messages import Message

CALL = ToolCall(id="c1", function=Function(name="look", arguments={"at": "x" * 3000}))


def test_messages_become_texts_that_say_whose_they_are() -> None:
    messages: list[Message] = [
        SystemMessage(text="never told"),
        UserMessage(content=(UserText(text="find it"), UserImage(source="data:,"))),
        AssistantMessage(
            content=(
                Reasoning(content=(ReasoningText(text="hm"),)),
                AssistantText(text="I look"),
                ToolCall(id="c2", function=Function(name="look", arguments={"at": 1})),
            )
        ),
        UserMessage(
            content=(
                ToolResult.of(
                    CALL,
                    (
                        ToolResultText(text="two"),
                        ToolResultJson(value={"n": 2}),
                        ToolResultImage(source="data:,"),
                    ),
                ),
            )
        ),
    ]
    assert items_of(messages) == [
        "user: find it",
        "assistant: I look",
        'call of look: {"at":1}',
        'result of look: two {"n":2} an image',
    ]


def test_arguments_and_results_are_cut_at_2_kib() -> None:
    found = ToolResult.of(CALL, (ToolResultText(text="é" * 3000),))
    told = items_of([AssistantMessage(content=(CALL,)), UserMessage(content=(found,))])
    assert told[0] == "call of look: " + ('{"at":"' + "x" * 3000)[:2048]
    assert told[1] == "result of look: " + "é" * 1024


def test_what_people_and_models_say_is_not_cut_here() -> None:
    long = UserMessage.of_text("x" * 5000)
    assert items_of([long]) == ["user: " + "x" * 5000]


@pytest.mark.parametrize("blank", ["", " \n\t "])
def test_a_blank_summary_stands_for_nothing(blank: str) -> None:
    assert condensed(blank, prior="order_12345678", items=["order 99999"]) == ""


def test_a_summary_is_cut_at_8_kib_of_whole_characters() -> None:
    assert condensed("é" * 5000, prior="", items=[]) == "é" * 4096
    assert cut("aé", 2) == "a"
    assert cut("aé", 3) == "aé"


def test_a_lone_surrogate_becomes_a_replacement() -> None:
    assert condensed("a\ud800b", prior="", items=[]) == "a\ufffdb"
    assert items_of([UserMessage.of_text("\ud800")]) == ["user: \ufffd"]


def test_identifiers_that_the_summary_lacks_are_put_under_it() -> None:
    """C173: those of the prior summary too."""
    items = [
        "user: look at https://example.com/a?b=1. and mail ann@example.org",
        'call of look: {"id":"run_0123456789ab","n":12345,"m":1234}',
        "result of look: 0123456789abcdef and 7d9f2b4c-1111-4222-8333-0123456789ab",
    ]
    assert condensed("It went well.", prior="About order 77777", items=items) == (
        "It went well.\nIdentifiers: 77777 https://example.com/a?b=1 ann@example.org "
        "run_0123456789ab 12345 0123456789abcdef 7d9f2b4c-1111-4222-8333-0123456789ab"
    )


def test_what_the_summary_names_is_not_named_again() -> None:
    assert condensed("Order 77777 came.", prior="77777", items=["77777"]) == "Order 77777 came."


def test_of_many_identifiers_the_newest_are_kept() -> None:
    """1 KiB of line: "Identifiers: " takes 13 bytes, each number 8 with its space."""
    items = [f"user: {n}" for n in range(1_000_000, 1_000_500)]
    line = condensed("Much.", prior="", items=items).split("\n")[1]
    numbers = line.removeprefix("Identifiers: ").split(" ")
    assert numbers == [str(n) for n in range(1_000_500 - 126, 1_000_500)]
    assert len(line.encode()) <= 1024


def test_an_identifier_named_again_counts_as_new() -> None:
    items = ["user: 11111 22222", "user: 11111"]
    assert condensed("Much.", prior="", items=items) == "Much.\nIdentifiers: 22222 11111"


def test_an_identifier_that_no_line_holds_costs_the_others_nothing() -> None:
    items = ["user: 11111 and https://example.com/" + "a" * 2000]
    assert condensed("Much.", prior="", items=items) == "Much.\nIdentifiers: 11111"


@pytest.mark.parametrize("piece", ["z", "ab_", "1-", "z@", "http://", "a@b.c."])
def test_a_text_that_is_nearly_an_identifier_takes_no_time(piece: str) -> None:
    """A text of a megabyte that is read again from each of its places would take hours."""
    items = [(piece * 1_000_000)[:1_000_000]]
    began = time.process_time()
    condensed("Much.", prior="", items=items)
    assert time.process_time() - began < 5
