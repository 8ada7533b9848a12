"""Text, unknown payloads, the terminal record and the finished turn (agent-run.md 8.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from app.engine.errors import CompletionError
from app.engine.messages import AssistantContent, AssistantImage, AssistantText
from app.engine.streaming.assembler import StreamedTurnAssembler
from app.engine.streaming.items import Completed, EmitIngested, InternalCallId
from app.engine.usage import FinishReason, Usage
from tests.engine.streaming.stream_items import (
    POLICY,
    assembler,
    delta,
    feed,
    final,
    text,
    thought,
    tool_call,
    unknown,
    whole,
)


def test_text_is_forwarded_and_aggregated() -> None:
    """A48."""
    streamed = assembler()
    assert feed(streamed, text("hel"), text("lo")) == [EmitIngested(), EmitIngested()]
    assert streamed.aggregated_text() == "hello"
    assert streamed.partial_turn("m1").text == "hello"
    assert streamed.partial_turn("m1").message_id == "m1"


def test_text_after_a_terminal_record_starts_anew() -> None:
    """A48."""
    streamed = assembler(text("old"), final())
    assert streamed.aggregated_text() == "old"
    assert streamed.partial_turn().text is None
    feed(streamed, text("n"), text("ew"))
    assert streamed.aggregated_text() == "new"
    assert streamed.partial_turn().text == "new"


def test_no_text_is_not_empty_text() -> None:
    assert assembler().partial_turn().text is None
    assert assembler(text("")).partial_turn().text == ""


def test_an_unknown_payload_is_forwarded_and_never_assembled() -> None:
    """A49."""
    streamed = assembler(text("answer"))
    assert feed(streamed, unknown({"type": "web_search_call"})) == [EmitIngested()]
    assert streamed.aggregated_text() == "answer"
    assert streamed.excluded_assistant_content() == 0


@dataclass(frozen=True)
class Payload:
    id: str
    payload: object
    excluded: int


CALL = {"type": "tool_call", "id": "c", "function": {"name": "add", "arguments": {}}}
PAYLOADS = (
    Payload("tagged-text", {"type": "text", "text": "hi"}, 1),
    Payload("tagged-text-with-more", {"type": "text", "text": "hi", "annotations": []}, 1),
    Payload("tagged-call", CALL, 1),
    Payload("tagged-reasoning", {"type": "reasoning", "content": []}, 1),
    Payload("tagged-image", {"type": "image", "source": "data:x"}, 1),
    Payload("text-with-params", {"text": "hi", "additional_params": []}, 1),
    Payload("tagged-text-with-params", {"type": "text", "text": "hi", "additional_params": []}, 1),
    Payload("untagged-text", {"text": "hi"}, 0),
    Payload("untagged-text-with-strays", {"text": "hi", "index": 0}, 0),
    Payload("another-tag", {"type": "output_text.annotation", "text": "hi"}, 0),
    Payload("a-provider-item", {"type": "web_search_call"}, 0),
    Payload("text-that-is-none", {"text": 42}, 0),
    Payload("params-without-text", {"text": 42, "additional_params": {}}, 0),
    Payload("no-object", ["text"], 0),
    Payload("null", None, 0),
)


@pytest.mark.parametrize("case", PAYLOADS, ids=lambda case: case.id)
def test_content_the_turn_will_lack_is_counted(case: Payload) -> None:
    """A50."""
    streamed = assembler(unknown(case.payload))
    assert streamed.excluded_assistant_content() == case.excluded
    assert streamed.aggregated_text() == ""


def test_excluded_content_adds_up() -> None:
    """A50."""
    one = unknown({"type": "text", "text": "hi"})
    assert assembler(one, unknown({}), one).excluded_assistant_content() == 2


def test_the_terminal_record_says_whether_there_was_text() -> None:
    usage = Usage(input_tokens=4)
    reason = FinishReason(kind="length")
    streamed = assembler(text("a"))
    completed = Completed(usage=usage, emit_final=True, finish_reason=reason)
    assert feed(streamed, final(reason, usage)) == [completed]
    assert feed(streamed, final()) == [Completed(usage=Usage(), emit_final=False)]


def test_the_last_finish_reason_is_the_turns() -> None:
    length, stop = FinishReason(kind="length"), FinishReason(kind="stop")
    assert assembler(final(length), final(stop)).finish(None, ()).finish_reason == stop
    assert assembler().finish(None, ()).finish_reason is None


TEXT = AssistantText(text="answer")
IMAGE = AssistantImage(source="data:x")


def test_without_calls_and_reasoning_the_providers_content_stands() -> None:
    """A67."""
    choice: tuple[AssistantContent, ...] = (IMAGE, TEXT, AssistantText(text=""))
    turn = assembler(text("ans"), text("wer")).finish("m1", choice)
    assert turn.choice == choice
    assert turn.message_id == "m1"
    assert turn.policy == POLICY
    assert turn.internal_call_ids == ()


def test_content_is_reasoning_then_text_then_images_then_calls() -> None:
    """A54, A151."""
    streamed = assembler(whole("i1", id_="c1"), delta("r", "because"), whole("i2", id_="c2"))
    provider_choice: list[AssistantContent] = [tool_call("c1"), IMAGE, TEXT]
    turn = streamed.finish(None, provider_choice)
    assert turn.choice == (thought("because"), TEXT, IMAGE, tool_call("c1"), tool_call("c2"))
    assert turn.internal_call_ids == (
        InternalCallId(position=3, internal_call_id="i1"),
        InternalCallId(position=4, internal_call_id="i2"),
    )


@pytest.mark.parametrize(
    ("part", "is_kept"),
    [
        (AssistantText(text=""), False),
        (AssistantText(text="", additional_params={}), False),
        (AssistantText(text="", additional_params={"citations": [1]}), True),
    ],
)
def test_empty_text_beside_a_call_is_kept_if_it_is_annotated(
    part: AssistantText, is_kept: bool
) -> None:
    """A51."""
    turn = assembler(whole("i1")).finish(None, (part,))
    assert (part in turn.choice) is is_kept


def test_finishing_changes_nothing() -> None:
    streamed = assembler(text("a"), whole("i1"))
    before = streamed.dump()
    assert streamed.finish(None, (TEXT,)) == streamed.finish(None, (TEXT,))
    assert streamed.dump() == before


def test_nothing_is_taken_in_or_finished_while_a_call_awaits_its_decision() -> None:
    """A149."""
    streamed = assembler(text("hel"), whole("i1", "nope"))
    before = streamed.dump()
    with pytest.raises(CompletionError, match="awaits resolution") as ingesting:
        streamed.ingest(text("lo"))
    with pytest.raises(CompletionError, match="awaits resolution") as finishing:
        streamed.finish(None, ())
    assert ingesting.value.kind == finishing.value.kind == "response"
    assert streamed.dump() == before
    assert streamed.partial_turn().text == "hel"


def test_arguments_of_the_wrong_type_are_refused() -> None:
    wrong: Any = "add"
    with pytest.raises(ValueError, match="policy: expected TurnPolicy, found str"):
        StreamedTurnAssembler(wrong)
    with pytest.raises(ValueError, match="resolution: expected Repaired or"):
        assembler(whole("i1", "nope")).resolve_pending_invalid(wrong)
