"""What vendors' models stream when they have searched, as `model_servers` gives it.

`SEARCHED` maps a model to one reply that searches and then calls `clock_now`, `SILENT` to one that
only calls it, by the same API. `ASKING` and `SAYING` are of the API that is used without a search:
they call `http_fetch`, and say `bye`.
"""

from __future__ import annotations

from typing import Any, Final

from tests.support.loopback.model_servers import Answer, call_piece, chat, chat_piece, claude, sse

CLAUDE: Final = "anthropic:claude-x"
GEMINI: Final = "google:gemini-x"
OPENAI: Final = "openai:gpt-x"

URL: Final = '{"url":"http://127.0.0.1:9/"}'
GROUNDING: Final = {
    "webSearchQueries": ["x"],
    "groundingChunks": [{"web": {"uri": "https://a.example", "title": "a"}}],
    "groundingSupports": [
        {"segment": {"startIndex": 0, "endIndex": 5, "text": "Hello"}, "groundingChunkIndices": [0]}
    ],
}


def gemini(
    *parts: dict[str, Any],
    finish: str | None = None,
    grounding: dict[str, Any] | None = None,
    **usage: int,
) -> bytes:
    """A chunk of Gemini's, with the parts of one candidate."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    if grounding is not None:
        candidate["groundingMetadata"] = grounding
    return sse({"candidates": [candidate], "responseId": "r-1", "usageMetadata": usage or None})


def event(kind: str, **fields: Any) -> bytes:
    """An event of OpenAI's Responses API."""
    return sse({"type": kind, "sequence_number": 0, **fields}, kind)


def responses(*items: dict[str, Any], pieces: tuple[bytes, ...] = (), **usage: Any) -> Answer:
    """A reply of the Responses API: whole items, and what streams within the last of them."""
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-x",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    events = [event("response.created", response={**response, "status": "in_progress"})]
    for index, item in enumerate(items):
        begun = {**item, "status": "in_progress"}
        events.append(event("response.output_item.added", output_index=index, item=begun))
        if index == len(items) - 1:
            events += pieces
        whole = {**item, "status": "completed"}
        events.append(event("response.output_item.done", output_index=index, item=whole))
    done = {**response, "status": "completed", "usage": usage or None}
    return Answer([*events, event("response.completed", response=done)])


OPENAI_SEARCH: Final = {
    "id": "ws_1",
    "type": "web_search_call",
    "action": {"type": "search", "query": "x"},
}
CLAUDE_SEARCH: Final = (
    {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
    [{"type": "input_json_delta", "partial_json": '{"query": "x"}'}],
)


def _claude_call(name: str, args: str, *, searches: bool = False) -> Answer:
    begun = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
    searched = [CLAUDE_SEARCH] if searches else []
    piece = {"type": "input_json_delta", "partial_json": args}
    return claude(*searched, (begun, [piece]), stop="tool_use")


def _gemini_call(name: str, args: dict[str, Any], *, searches: bool = False) -> Answer:
    grounding = GROUNDING if searches else None
    call = {"functionCall": {"name": name, "args": args}}
    return Answer([gemini(call, finish="STOP", grounding=grounding)])


_OPENAI_CALL: Final = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "c1",
    "name": "clock_now",
    "arguments": "{}",
}
SEARCHED: Final = {
    CLAUDE: _claude_call("clock_now", "{}", searches=True),
    GEMINI: _gemini_call("clock_now", {}, searches=True),
    OPENAI: responses(OPENAI_SEARCH, _OPENAI_CALL),
}
SILENT: Final = {
    CLAUDE: _claude_call("clock_now", "{}"),
    GEMINI: _gemini_call("clock_now", {}),
    OPENAI: responses(_OPENAI_CALL),
}
ASKING: Final = {
    CLAUDE: _claude_call("http_fetch", URL),
    GEMINI: _gemini_call("http_fetch", {"url": "http://127.0.0.1:9/"}),
    OPENAI: chat(
        call_piece(0, URL, name="http_fetch", call_id="c2"), chat_piece({}, finish="tool_calls")
    ),
}
SAYING: Final = {
    CLAUDE: claude(({"type": "text", "text": ""}, [{"type": "text_delta", "text": "bye"}])),
    GEMINI: Answer([gemini({"text": "bye"}, finish="STOP")]),
    OPENAI: chat(chat_piece({"content": "bye"}), chat_piece({}, finish="stop")),
}


def is_offered(body: dict[str, Any]) -> bool:
    """Whether a request offers a search, in the words of any vendor."""
    return any(
        str(tool.get("type", "")).startswith("web_search") or "googleSearch" in tool
        for tool in body.get("tools", ())
    )
