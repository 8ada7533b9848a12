"""Transcripts as vendors get them: results after their calls, ids that do not repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_ai import messages as wire

from app.engine.messages import (
    AssistantImage,
    AssistantMessage,
    AssistantText,
    Reasoning,
    ReasoningText,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolResultImage,
    ToolResultJson,
    ToolResultText,
    UserDocument,
    UserImage,
    UserMessage,
    UserText,
)
from app.providers.calls import call_from_wire
from app.providers.transcript import holds_calls, vendor_messages

if TYPE_CHECKING:
    from app.engine.messages import Message, ToolResultContent


def call(call_id: str, text: str = "{}", name: str = "t") -> ToolCall:
    return call_from_wire(call_id, name, text, turn=0, position=0)


def answered(*results: tuple[ToolCall, str]) -> UserMessage:
    return UserMessage(
        content=tuple(ToolResult.of(made, (ToolResultText(text=text),)) for made, text in results)
    )


def said(*messages: Message, vendor: str = "openai") -> list[tuple[str, list[tuple[str, ...]]]]:
    """Each message as its side and its parts, each part as its kind and what it says."""
    return [
        (message.kind, [_part(part) for part in message.parts])
        for message in vendor_messages(messages, vendor)
    ]


def _part(part: wire.ModelRequestPart | wire.ModelResponsePart) -> tuple[str, ...]:
    match part:
        case wire.ToolCallPart():
            return "call", part.tool_call_id, part.tool_name, str(part.args)
        case wire.ToolReturnPart():
            return "result", part.tool_call_id, part.tool_name, str(part.content)
        case (
            wire.SystemPromptPart() | wire.UserPromptPart() | wire.TextPart() | wire.ThinkingPart()
        ):
            return part.part_kind, str(part.content)
        case _:
            raise AssertionError(part)


def test_neighbours_of_one_side_are_one_message_and_results_come_before_text() -> None:
    made = call("a", '{"n": 1.0}')
    mixed = UserMessage(
        content=(UserText(text="and"), ToolResult.of(made, (ToolResultText(text="r"),)))
    )
    assert said(
        SystemMessage(text="sys"),
        UserMessage.of_text("hi"),
        AssistantMessage(content=(AssistantText(text="ok"), AssistantText(text=""))),
        AssistantMessage(content=(made,)),
        mixed,
        UserMessage.of_text("note"),
    ) == [
        ("request", [("system-prompt", "sys"), ("user-prompt", "hi")]),
        ("response", [("text", "ok"), ("call", "a", "t", '{"n": 1.0}')]),
        ("request", [("result", "a", "t", "r"), ("user-prompt", "and"), ("user-prompt", "note")]),
    ]


def test_repeated_ids_are_told_apart_within_a_batch_and_across_the_transcript() -> None:
    first, second, third = call("same", "1"), call("same", "2"), call("same", "3")
    assert said(
        UserMessage.of_text("hi"),
        AssistantMessage(content=(first, second)),
        answered((first, "r1"), (second, "r2")),
        AssistantMessage(content=(third,)),
        answered((third, "r3")),
    )[1:] == [
        ("response", [("call", "same", "t", "1"), ("call", "same-2", "t", "2")]),
        ("request", [("result", "same", "t", "r1"), ("result", "same-2", "t", "r2")]),
        ("response", [("call", "same-3", "t", "3")]),
        ("request", [("result", "same-3", "t", "r3")]),
    ]


def test_ids_and_names_that_no_vendor_takes_are_written_so_that_each_does() -> None:
    made, other = call("x" * 60, name="read file!"), call("x" * 61, name="")
    (_, calls), (_, results) = said(
        AssistantMessage(content=(made, other)), answered((made, "1"), (other, "2"))
    )
    assert [part[1:3] for part in calls] == [
        ("x" * 40, "read_file_"),
        ("x" * 38 + "-2", "_"),
    ]
    assert [part[1] for part in results] == ["x" * 40, "x" * 38 + "-2"]


def test_malformed_arguments_are_sent_as_the_model_wrote_them() -> None:
    [(_, parts)] = said(AssistantMessage(content=(call("a", '{"a":1,"a":2, bad'),)))
    assert parts == [("call", "a", "t", '{"a":1,"a":2, bad')]


def test_a_call_that_no_provider_sent_is_written_as_compact_json() -> None:
    made = ToolCall.from_wire("a", "t", {"n": 1, "ä": []}, turn=0, position=0)
    [(_, parts)] = said(AssistantMessage(content=(made,)))
    assert parts == [("call", "a", "t", '{"n":1,"ä":[]}')]


def test_reasoning_goes_to_its_own_vendor_alone() -> None:
    own = Reasoning(id="openai:rs_1", content=(ReasoningText(text="a"), ReasoningText(text="b")))
    foreign = Reasoning(id="anthropic:", content=(ReasoningText(text="c"),))
    played = Reasoning(content=(ReasoningText(text="d"),))
    message = AssistantMessage(content=(foreign, own, played))
    assert said(message) == [("response", [("thinking", "ab")])]
    assert said(message, vendor="google") == []


def results(*content: ToolResultContent) -> list[tuple[str, ...]]:
    made = call("a")
    answer = UserMessage(content=(ToolResult.of(made, content),))
    return said(AssistantMessage(content=(made,)), answer)[1][1]


def test_results_are_text_and_json_is_compact() -> None:
    assert results(ToolResultText(text="x"), ToolResultJson(value={"ä": [1, None]})) == [
        ("result", "a", "t", 'x\n{"ä":[1,null]}')
    ]
    assert results(ToolResultImage(source="http://x")) == [("result", "a", "t", "[an image]")]


def test_media_at_hand_go_along_and_a_url_is_shown_but_not_fetched() -> None:
    content = (
        UserImage(source="data:image/png;base64,AAAA"),
        UserDocument(source="http://10.0.0.1/x"),
    )
    [message] = vendor_messages([UserMessage(content=content)], "openai")
    image, document = message.parts
    assert isinstance(image, wire.UserPromptPart)
    assert [type(block) for block in image.content] == [wire.BinaryImage]
    assert isinstance(document, wire.UserPromptPart)
    assert document.content == "[document: http://10.0.0.1/x]"
    assert said(AssistantMessage(content=(AssistantImage(source="x"),))) == [
        ("response", [("text", "[an image]")])
    ]


def test_a_transcript_knows_whether_it_holds_calls() -> None:
    text = AssistantMessage(content=(AssistantText(text="x"),))
    assert not holds_calls([UserMessage.of_text("hi"), text])
    assert holds_calls([text, AssistantMessage(content=(call("a"),))])
