"""Anthropic's messages, from a server that speaks them."""

from __future__ import annotations

from typing import Any

import pytest

from app.engine.messages import AssistantMessage, Reasoning, ToolResult, ToolResultText, UserMessage
from app.engine.usage import FinishReason, Usage
from app.turn.ports import CacheHint
from tests.providers.vendors import CLAUDE, Failing, ask, is_told
from tests.support.loopback.model_servers import Answer, claude, refused, sse

Block = tuple[dict[str, Any], list[dict[str, Any]]]

HELLO = ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Hello"}])
THOUGHT = (
    {"type": "thinking", "thinking": "", "signature": ""},
    [
        {"type": "thinking_delta", "thinking": "Hm"},
        {"type": "thinking_delta", "thinking": "m."},
        {"type": "signature_delta", "signature": "sig-1"},
    ],
)
HIDDEN: Block = ({"type": "redacted_thinking", "data": "sealed"}, [])
CALL = (
    {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}},
    [{"type": "input_json_delta", "partial_json": part} for part in ("", '{"q":', ' "a"}')],
)
BARE_CALL: Block = ({"type": "tool_use", "id": "toolu_2", "name": "look_up", "input": {}}, [])
SEARCH = (
    {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
    [{"type": "input_json_delta", "partial_json": '{"query": "x"}'}],
)


async def test_text_reasoning_and_calls_are_read_with_their_usage() -> None:
    replied, _ = await ask(CLAUDE, claude(THOUGHT, HELLO, CALL, BARE_CALL, stop="tool_use"))
    assert (replied.thoughts, replied.texts) == (["Hm", "m."], ["Hello"])
    assert [call.id for call in replied.calls] == ["toolu_1", "toolu_2"]
    assert replied.sent_arguments == ['{"q": "a"}', "{}"]
    assert replied.final.finish_reason == FinishReason(kind="tool_calls", detail="tool_use")
    assert replied.final.response_id == "msg_1"
    assert replied.final.usage == Usage(
        input_tokens=73,
        output_tokens=9,
        total_tokens=82,
        cached_input_tokens=22,
        cache_creation_input_tokens=11,
    )


async def test_signed_and_hidden_reasoning_goes_back_to_its_vendor_untouched() -> None:
    first, _ = await ask(CLAUDE, claude(THOUGHT, HIDDEN, CALL, stop="tool_use"))
    blocks = [item.reasoning for item in first.items if item.type == "reasoning"]
    foreign = Reasoning(id="openai:rs_1", content=blocks[0].content)
    call = first.calls[0]
    history = (
        UserMessage.of_text("hi"),
        AssistantMessage(content=(foreign, *blocks, call)),
        UserMessage(content=(ToolResult.of(call, (ToolResultText(text="found"),)),)),
    )
    _, asked = await ask(CLAUDE, claude(HELLO), messages=history)
    assert asked["messages"][1] == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hmm.", "signature": "sig-1"},
            {"type": "redacted_thinking", "data": "sealed"},
            {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"q": "a"}},
        ],
    }
    assert asked["messages"][2]["content"][0]["tool_use_id"] == "toolu_1"


async def test_the_cache_hint_marks_the_tools_and_the_instructions_but_not_the_time() -> None:
    now = 1_795_953_600_000
    _, marked = await ask(
        CLAUDE, claude(HELLO), cache_hint=CacheHint.STABLE_PREFIX, now_unix_ms=now
    )
    _, plain = await ask(CLAUDE, claude(HELLO), now_unix_ms=now)
    assert [block.get("cache_control", {}).get("type") for block in marked["system"]] == [
        "ephemeral",
        None,
    ]
    assert [block["text"] for block in marked["system"]] == [
        "Be brief.",
        "The time is 2026-11-29T12:00:00Z, a Sunday.",
    ]
    assert marked["tools"][0]["cache_control"]["type"] == "ephemeral"
    assert "cache_control" not in str(marked["messages"])
    assert "cache_control" not in str(plain)


async def test_t8_the_same_prefix_is_marked_whether_or_not_a_search_is_offered() -> None:
    marks = []
    for searches in (True, False):
        hint = CacheHint.STABLE_PREFIX
        _, asked = await ask(CLAUDE, claude(HELLO), cache_hint=hint, web_search=searches)
        tools = [tool["name"] for tool in asked["tools"] if "cache_control" in tool]
        marks.append((tools, ["cache_control" in block for block in asked["system"]]))
    assert marks == [(["look_up"], [True])] * 2


async def test_search_is_offered_when_asked_for_and_its_use_is_told() -> None:
    replied, asked = await ask(CLAUDE, claude(SEARCH, HELLO), web_search=True)
    assert [tool.get("type") for tool in asked["tools"]] == [None, "web_search_20250305"]
    assert [item.payload for item in replied.items if item.type == "unknown"] == [
        {"type": "web_search_call"}
    ]
    assert replied.calls == []
    _, without = await ask(CLAUDE, claude(HELLO))
    assert len(without["tools"]) == 1


async def test_a_closing_completion_switches_calling_off_where_the_history_holds_calls() -> None:
    first, bare = await ask(CLAUDE, claude(CALL, stop="tool_use"), calls_allowed=False)
    assert "tools" not in bare
    call = first.calls[0]
    history = (
        UserMessage.of_text("hi"),
        AssistantMessage(content=(call,)),
        UserMessage(content=(ToolResult.of(call, (ToolResultText(text="found"),)),)),
    )
    _, asked = await ask(CLAUDE, claude(HELLO), messages=history, calls_allowed=False)
    assert asked["tool_choice"] == {"type": "none"}
    assert len(asked["tools"]) == 1


async def test_a_refusal_is_an_answer_cut_by_a_filter() -> None:
    replied, _ = await ask(CLAUDE, claude(HELLO, stop="refusal"))
    assert replied.final.finish_reason == FinishReason(kind="content_filter", detail="refusal")


def error(kind: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": "secret sk-123 in a body"}}


BEGUN = claude(HELLO).pieces[:3]  # Up to its first text.
OVERLOADED = error("overloaded_error")
LIMITED = error("rate_limit_error")
FAILING = [
    Failing("429", refused(429, LIMITED, ("Retry-After", "7")), "rate_limit", retry_after=7.0),
    Failing("429 in ms", refused(429, LIMITED, ("retry-after-ms", "250")), "rate_limit", 0.25),
    Failing("429 unread", refused(429, LIMITED, ("Retry-After", "soon")), "rate_limit"),
    Failing("401", refused(401, error("authentication_error")), "auth", says="status 401"),
    Failing("403", refused(403, error("permission_error")), "auth"),
    Failing("400", refused(400, error("invalid_request_error")), "bad_request"),
    Failing("402", refused(402, error("billing_error")), "other"),
    Failing("404", refused(404, error("not_found_error")), "bad_request"),
    Failing("413", refused(413, error("request_too_large")), "bad_request"),
    Failing("500", refused(500, error("api_error")), "unavailable"),
    Failing("529", refused(529, OVERLOADED), "unavailable", says="status 529"),
    Failing("529 for 130 s", refused(529, OVERLOADED, ("Retry-After", "130")), "unavailable", 130),
    Failing("overloaded at once", Answer([sse(OVERLOADED, "error")]), "unavailable"),
    Failing("overloaded", Answer([*BEGUN, sse(OVERLOADED, "error")]), "unavailable", text="Hello"),
    Failing("limited", Answer([*BEGUN, sse(LIMITED, "error")]), "rate_limit", text="Hello"),
    Failing("cut before the first event", Answer(ending="cut"), "unavailable"),
    Failing("cut before the first text", Answer(BEGUN[:2], ending="cut"), "unavailable"),
    Failing("cut", Answer(BEGUN, ending="cut"), "unavailable", text="Hello"),
    Failing("without a stop reason", claude(HELLO, stop=""), "unavailable", text="Hello"),
    Failing("ended too early", Answer(BEGUN), "unavailable", text="Hello"),
    Failing("no JSON", Answer([*BEGUN, b"data: {nonsense\n\n"]), "unavailable", text="Hello"),
    Failing("nothing", Answer(), "unavailable"),
]


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case.id)
async def test_a_failure_is_told_by_kind_after_one_request_and_without_the_body(
    case: Failing,
) -> None:
    await is_told(CLAUDE, case)


async def test_blocks_of_context_stand_between_the_instructions_and_the_time() -> None:
    """C148: each is a part of its own, and what is cached reaches to the last of them."""
    _, asked = await ask(
        CLAUDE,
        claude(HELLO),
        cache_hint=CacheHint.STABLE_PREFIX,
        now_unix_ms=1_795_953_600_000,
        context=("<a>é</a>", "<b></b>"),
    )
    assert [(block["text"], "cache_control" in block) for block in asked["system"]] == [
        ("Be brief.", False),
        ("<a>é</a>", False),
        ("<b></b>", True),
        ("The time is 2026-11-29T12:00:00Z, a Sunday.", False),
    ]
