"""Google's Gemini API, and OpenAI's Responses API for what its chat API lacks: search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.engine.messages import AssistantMessage, ToolResult, ToolResultText, UserMessage
from app.engine.usage import FinishReason, Usage
from app.turn.ports import CacheHint, FailureKind
from tests.providers.played import reply
from tests.providers.vendors import CHAT, REQUEST, Failing, ask, asking, is_told
from tests.support.loopback.model_servers import Answer, refused, sse
from tests.support.loopback.search_servers import (
    GEMINI,
    GROUNDING,
    OPENAI_SEARCH,
    SAYING,
    event,
    gemini,
    responses,
)

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


def error(code: int, status: str) -> dict[str, object]:
    return {"error": {"code": code, "message": "secret sk-123", "status": status}}


SPENT = error(429, "RESOURCE_EXHAUSTED")
HALF = gemini({"text": "x"})
FAILING = [
    Failing("429", refused(429, SPENT, ("Retry-After", "3")), "rate_limit", retry_after=3.0),
    Failing("400", refused(400, error(400, "INVALID_ARGUMENT")), "bad_request"),
    Failing("403", refused(403, error(403, "PERMISSION_DENIED")), "auth"),
    Failing("503", refused(503, error(503, "UNAVAILABLE")), "unavailable", says="status 503"),
    Failing("cut before the first chunk", Answer(ending="cut"), "unavailable"),
    Failing("cut", Answer([HALF], ending="cut"), "unavailable", text="x"),
    Failing("without a finish reason", Answer([HALF]), "unavailable", text="x"),
]


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case.id)
async def test_a_failure_is_told_by_kind_after_one_request_and_without_the_body(
    case: Failing,
) -> None:
    await is_told(GEMINI, case)


async def test_a_blocked_prompt_is_a_filter_at_work_and_no_broken_stream() -> None:
    """It would be blocked again, so it is no failure to be tried again."""
    blocked = sse({"promptFeedback": {"blockReason": "SAFETY"}, "responseId": "r-1"})
    replied, _ = await ask(GEMINI, Answer([blocked]))
    assert replied.text == ""
    assert replied.final.finish_reason == FinishReason(kind="content_filter", detail="SAFETY")


MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
PLACE = {"output_index": 1, "content_index": 0, "item_id": "msg_1"}


async def test_openai_searches_through_its_other_api_and_keeps_nothing_there() -> None:
    text = {"type": "output_text", "text": "", "annotations": []}
    answer = responses(
        OPENAI_SEARCH,
        MESSAGE,
        pieces=(
            event("response.content_part.added", **PLACE, part=text),
            event("response.output_text.delta", **PLACE, delta="Hello", logprobs=[]),
        ),
        input_tokens=5,
        output_tokens=2,
        total_tokens=7,
        input_tokens_details={"cached_tokens": 1},
        output_tokens_details={"reasoning_tokens": 0},
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


async def test_google_searches_beside_its_tools_and_tells_of_it_when_it_is_over() -> None:
    answer = Answer([gemini({"text": "Hello"}), gemini(finish="STOP", grounding=GROUNDING)])
    replied, asked = await ask(GEMINI, answer, web_search=True)
    assert [item.payload for item in replied.items if item.type == "unknown"] == [
        {"type": "web_search_call"}
    ]
    assert (replied.text, replied.calls) == ("Hello", [])
    assert asked["tools"][0] == {"googleSearch": {}}
    assert "functionDeclarations" in asked["tools"][1]
    _, without = await ask(GEMINI, Answer([gemini({"text": "x"}, finish="STOP")]))
    assert "googleSearch" not in str(without)


async def test_an_older_model_that_cannot_search_beside_tools_says_so_before_it_is_asked() -> None:
    async with asking("google:gemini-2.5-flash") as (provider, server):
        replied = await reply(provider, replace(REQUEST, web_search=True))
    assert replied.error is not None
    assert (replied.error.kind, server.asked) == (FailureKind.BAD_REQUEST, [])
    assert "cannot search the web, or not while it is offered tools" in replied.error.message


@pytest.mark.parametrize("model", ["openai:gpt-x", GEMINI, CHAT])
async def test_where_nothing_marks_a_cached_prefix_the_hint_changes_no_byte(model: str) -> None:
    bodies = []
    for hint in CacheHint:
        answer = SAYING.get(model, SAYING["openai:gpt-x"])
        bodies.append((await ask(model, answer, cache_hint=hint))[1])
    assert bodies[0] == bodies[1]
