"""Chat completions as OpenAI and compatible servers stream them, from a server that speaks them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.engine.streaming.items import ToolCallItem, ToolCallNameItem
from app.engine.usage import FinishReason, Usage
from tests.providers.played import reply
from tests.providers.vendors import CHAT, REQUEST, Failing, ask, asking, is_told
from tests.support.loopback.model_servers import Answer, call_piece, chat, chat_piece, refused, sse

END = chat_piece({}, finish="stop")


async def test_text_streams_piece_by_piece_and_usage_comes_at_the_end() -> None:
    usage = {
        "prompt_tokens": 50,
        "completion_tokens": 7,
        "total_tokens": 57,
        "prompt_tokens_details": {"cached_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    pieces = [chat_piece({"content": text}) for text in ("", "Gr", "üße ", "dir")]
    replied, asked = await ask(CHAT, chat(*pieces, END, chat_piece(usage=usage)))
    assert replied.texts == ["Gr", "üße ", "dir"]
    assert replied.final.usage == Usage(
        input_tokens=50,
        output_tokens=7,
        total_tokens=57,
        cached_input_tokens=30,
        reasoning_tokens=4,
    )
    assert replied.final.finish_reason == FinishReason(kind="stop", detail="stop")
    assert (replied.final.response_id, replied.final.raw) == ("chatcmpl-1", None)
    assert (asked["model"], asked["stream"]) == ("m", True)


async def test_parallel_calls_are_put_together_from_interleaved_pieces() -> None:
    replied, _ = await ask(
        CHAT,
        chat(
            chat_piece({"content": "Looking."}),
            call_piece(0, "", name="look_up", call_id="id-a"),
            call_piece(1, '{"q":', name="other", call_id="id-b"),
            call_piece(0, '{"q": "a",'),
            call_piece(1, '"b"}'),
            call_piece(0, ' "n": 1.0}'),
            chat_piece({}, finish="tool_calls"),
        ),
        replies=3,
    )
    assert [(call.id, call.name) for call in replied.calls] == [
        ("id-a", "look_up"),
        ("id-b", "other"),
    ]
    assert replied.sent_arguments == ['{"q": "a", "n": 1.0}', '{"q":"b"}']
    assert replied.final.finish_reason == FinishReason(kind="tool_calls", detail="tool_calls")
    names = [item for item in replied.items if isinstance(item, ToolCallNameItem)]
    whole = [item for item in replied.items if isinstance(item, ToolCallItem)]
    assert [item.name for item in names] == ["look_up", "other"]
    assert [item.internal_call_id for item in names] == [item.internal_call_id for item in whole]


async def test_ids_are_kept_if_they_repeat_and_made_up_by_place_if_they_are_missing() -> None:
    replied, _ = await ask(
        CHAT,
        chat(
            chat_piece({"content": "x"}),
            call_piece(0, "{}", name="look_up", call_id="same"),
            call_piece(1, "{}", name="look_up", call_id="same"),
            call_piece(2, "", name="look_up", call_id=""),
            END,
        ),
        replies=3,
    )
    assert [call.id for call in replied.calls] == ["same", "same", "local-3-3"]
    assert [call.provider is None for call in replied.calls] == [False, False, True]
    assert replied.final.finish_reason == FinishReason(kind="tool_calls", detail="stop")


MALFORMED = ['{"q":"a","q":"b"', "[1]", '{"q": NaN}', '{"q":"\\ud800"}', "text"]


@pytest.mark.parametrize("text", MALFORMED)
async def test_malformed_arguments_are_kept_as_sent(text: str) -> None:
    replied, _ = await ask(
        CHAT, chat(call_piece(0, text, name="look_up", call_id="a"), chat_piece({}, finish="stop"))
    )
    assert replied.sent_arguments == [text]
    assert [call.is_malformed for call in replied.calls] == [True]


async def test_absent_arguments_are_an_empty_object() -> None:
    replied, _ = await ask(CHAT, chat(call_piece(0, "", name="look_up", call_id="a"), END))
    assert replied.sent_arguments == ["{}"]
    assert dict(replied.calls[0].function.arguments) == {}


async def test_lone_surrogates_are_replaced_in_text() -> None:
    replied, _ = await ask(CHAT, chat(chat_piece({"content": "a\ud800b"}), END))
    assert replied.text == "a?b"


async def test_a_refusal_is_text_that_was_cut_by_a_filter() -> None:
    pieces = [chat_piece({"refusal": text}) for text in ("I can", "not.")]
    replied, _ = await ask(CHAT, chat(*pieces, END))
    assert replied.text == "I cannot."
    assert replied.final.finish_reason is not None
    assert replied.final.finish_reason.kind == "content_filter"


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_a_cut_answer_says_so(finish: str) -> None:
    replied, _ = await ask(CHAT, chat(chat_piece({"content": "x"}), chat_piece({}, finish=finish)))
    assert replied.final.finish_reason is not None
    assert replied.final.finish_reason.kind == finish
    assert replied.final.finish_reason.truncates


async def test_reasoning_streams_and_is_kept_whole_for_its_server() -> None:
    pieces = [chat_piece({"reasoning_content": text}) for text in ("Let ", "me see.")]
    replied, _ = await ask(CHAT, chat(*pieces, chat_piece({"content": "Yes."}), END))
    assert replied.thoughts == ["Let ", "me see."]
    blocks = [item.reasoning for item in replied.items if item.type == "reasoning"]
    assert [block.id for block in blocks] == ["compatible-local:reasoning_content"]
    assert [part.text for block in blocks for part in block.content] == ["Let me see."]


def error(code: str = "x") -> dict[str, object]:
    return {"error": {"message": "secret sk-123 in a body", "type": "t", "code": code}}


HELLO = chat_piece({"content": "Hello"})
BROKEN = [
    Failing("429", refused(429, error(), ("Retry-After", "7")), "rate_limit", retry_after=7.0),
    Failing("429 in ms", refused(429, error(), ("retry-after-ms", "250")), "rate_limit", 0.25),
    Failing("429 unread", refused(429, error(), ("Retry-After", "soon")), "rate_limit"),
    Failing("quota", refused(429, error("insufficient_quota")), "other"),
    Failing("401", refused(401, error()), "auth", says="status 401"),
    Failing("403", refused(403, error()), "auth"),
    Failing("400", refused(400, error()), "bad_request"),
    Failing("404", refused(404, error()), "bad_request"),
    Failing("405", refused(405, error()), "bad_request"),
    Failing("408", refused(408, error()), "timeout"),
    Failing("418", refused(418, error()), "bad_request"),
    Failing("599", refused(599, error()), "unavailable"),
    Failing("500", refused(500, error()), "unavailable"),
    Failing("503", refused(503, error(), ("Retry-After", "130")), "unavailable", retry_after=130.0),
    Failing("cut before the first chunk", chat(ending="cut"), "unavailable"),
    Failing("cut", chat(HELLO, ending="cut"), "unavailable", text="Hello"),
    Failing("without a finish reason", chat(HELLO), "unavailable", text="Hello"),
    Failing("ended without its mark", Answer([HELLO]), "unavailable", text="Hello"),
    Failing("no JSON", chat(HELLO, b"data: {nonsense\n\n"), "unavailable", text="Hello"),
    Failing("nothing", Answer(), "unavailable"),
    Failing("error in a 200", chat(HELLO, sse(error("server_error"))), "unavailable", text="Hello"),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.id)
async def test_a_failure_is_told_by_kind_after_one_request_and_without_the_body(
    case: Failing,
) -> None:
    await is_told(CHAT, case)


async def test_the_request_holds_instructions_time_tools_and_key() -> None:
    async with asking(CHAT, chat(HELLO, END)) as (provider, server):
        await reply(provider, replace(REQUEST, now_unix_ms=1_795_953_600_000))
    asked = server.asked[0]
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer key-c"
    assert asked.body["messages"][0] == {
        "role": "system",
        "content": "Be brief.\n\nThe time is 2026-11-29T12:00:00Z, a Sunday.",
    }
    assert asked.body["messages"][1]["role"] == "user"
    assert asked.body["tools"][0]["function"] == {
        "name": "look_up",
        "description": "Look something up.",
        "parameters": {
            "type": "object",
            "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["q"],
        },
    }
    assert json.dumps(asked.body).count("look_up") == 1


async def test_a_single_system_text_joins_blocks_of_context_by_one_blank_line() -> None:
    """C148."""
    async with asking(CHAT, chat(HELLO, END)) as (provider, server):
        await reply(provider, replace(REQUEST, context=("<a>é</a>", "<b></b>")))
    system = {"role": "system", "content": "Be brief.\n\n<a>é</a>\n\n<b></b>"}
    assert server.asked[0].body["messages"][0] == system


async def test_openai_itself_is_asked_through_its_chat_api_with_its_key() -> None:
    async with asking("openai:gpt-x", chat(HELLO, END)) as (provider, server):
        replied = await reply(provider, REQUEST)
    assert replied.text == "Hello"
    assert server.asked[0].path == "/v1/chat/completions"
    assert server.asked[0].headers["authorization"] == "Bearer key-o"
    assert server.asked[0].body["model"] == "gpt-x"


async def test_a_compatible_server_is_never_asked_to_search() -> None:
    _, asked = await ask(CHAT, chat(HELLO, END), web_search=True)
    assert [tool["type"] for tool in asked["tools"]] == ["function"]
