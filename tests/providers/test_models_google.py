"""Google's Gemini API, and OpenAI's Responses API for what its chat API lacks: search."""

from __future__ import annotations

from typing import Any

from app.engine.messages import AssistantMessage, ToolResult, ToolResultText, UserMessage
from app.engine.usage import FinishReason, Usage
from app.turn.ports import FailureKind
from tests.providers.vendors import ask
from tests.support.model_servers import Answer, refused, sse

GEMINI = "google:gemini-x"


def gemini(*parts: dict[str, Any], finish: str | None = None, **usage: int) -> bytes:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return sse({"candidates": [candidate], "responseId": "r-1", "usageMetadata": usage or None})


CALL = {"functionCall": {"name": "look_up", "args": {"q": "ä"}}, "thoughtSignature": "c2ln"}


async def test_a_call_without_id_gets_one_by_place_and_its_signature_goes_back() -> None:
    first, _ = await ask(
        GEMINI,
        Answer(
            [
                gemini({"text": "Hm.", "thought": True}),
                gemini({"text": "Look"}),
                gemini({"text": "ing."}),
                gemini(
                    CALL,
                    finish="STOP",
                    promptTokenCount=5,
                    candidatesTokenCount=3,
                    thoughtsTokenCount=2,
                    totalTokenCount=10,
                ),
            ]
        ),
        replies=1,
    )
    assert (first.thoughts, first.texts) == (["Hm."], ["Look", "ing."])
    assert [(call.id, call.provider) for call in first.calls] == [("local-1-2", None)]
    assert first.sent_arguments == ['{"q":"ä"}']
    assert first.final.finish_reason == FinishReason(kind="tool_calls", detail="STOP")
    assert first.final.usage == Usage(
        input_tokens=5, output_tokens=5, total_tokens=10, reasoning_tokens=2
    )
    call = first.calls[0]
    history = (
        UserMessage.of_text("hi"),
        AssistantMessage(content=(call,)),
        UserMessage(content=(ToolResult.of(call, (ToolResultText(text="found"),)),)),
    )
    _, asked = await ask(GEMINI, Answer([gemini({"text": "x"}, finish="STOP")]), messages=history)
    assert asked["contents"][1]["parts"] == [
        {
            "functionCall": {"id": "local-1-2", "name": "look_up", "args": {"q": "ä"}},
            "thoughtSignature": "c2ln",
        }
    ]


async def test_failures_of_google_are_told_by_kind() -> None:
    cut, _ = await ask(GEMINI, Answer([gemini({"text": "x"})]))
    assert (cut.text, cut.error and cut.error.kind) == ("x", FailureKind.UNAVAILABLE)
    spent = {"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}
    limited, _ = await ask(GEMINI, refused(429, spent, ("Retry-After", "3")))
    assert limited.error is not None
    assert (limited.error.kind, limited.error.retry_after) == (FailureKind.RATE_LIMIT, 3.0)


def event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, "sequence_number": 0, **fields}, kind)


RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-x",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
SEARCH = {"id": "ws_1", "type": "web_search_call", "action": {"type": "search", "query": "x"}}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
PLACE = {"output_index": 1, "content_index": 0, "item_id": "msg_1"}
USAGE = {
    "input_tokens": 5,
    "output_tokens": 2,
    "total_tokens": 7,
    "input_tokens_details": {"cached_tokens": 1},
    "output_tokens_details": {"reasoning_tokens": 0},
}


async def test_openai_searches_through_its_other_api_and_keeps_nothing_there() -> None:
    text = {"type": "output_text", "text": "", "annotations": []}
    answer = Answer(
        [
            event("response.created", response={**RESPONSE, "status": "in_progress"}),
            event(
                "response.output_item.added",
                output_index=0,
                item={**SEARCH, "status": "in_progress"},
            ),
            event(
                "response.output_item.done", output_index=0, item={**SEARCH, "status": "completed"}
            ),
            event(
                "response.output_item.added",
                output_index=1,
                item={**MESSAGE, "status": "in_progress"},
            ),
            event("response.content_part.added", **PLACE, part=text),
            event("response.output_text.delta", **PLACE, delta="Hello", logprobs=[]),
            event(
                "response.completed",
                response={**RESPONSE, "status": "completed", "usage": USAGE},
            ),
        ]
    )
    replied, asked = await ask("openai:gpt-x", answer, web_search=True)
    assert (replied.text, replied.calls) == ("Hello", [])
    assert [item.payload for item in replied.items if item.type == "unknown"] == [
        {"type": "web_search_call"}
    ]
    assert replied.final.usage == Usage(
        input_tokens=5, output_tokens=2, total_tokens=7, cached_input_tokens=1
    )
    assert asked["store"] is False
    assert [tool["type"] for tool in asked["tools"]] == ["web_search", "function"]
