"""Answers of servers as the model sees them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from mcp_types import CallToolResult, ImageContent, TextContent

from app.tools.mcp.results import Answered, outcome_of
from tests.support.loopback.mcp_server import ToolServer, served_tools, tool
from tests.tools.mcp.servers import call, connections, listed, web

TEXT = {"type": "text", "text": "four"}


@dataclass(frozen=True)
class Case:
    id: str
    answer: Answered
    result: dict[str, Any]


CASES = [
    Case("text", Answered([TEXT, TEXT]), {"text": "four\nfour"}),
    Case("nothing", Answered([]), {"text": ""}),
    Case("a value that the text repeats", Answered([TEXT], {"n": 4}), {"text": "four"}),
    Case("a value alone", Answered([], {"n": 4}), {"structured": {"n": 4}}),
    Case(
        "a picture beside text",
        Answered([TEXT, {"type": "image", "data": "aGVsbG8h", "mimeType": "image/png"}]),
        {"content": [{"text": "four"}, {"type": "image", "mime": "image/png", "size_bytes": 6}]},
    ),
    Case(
        "a text file",
        Answered([{"type": "resource", "resource": {"uri": "file:///a", "text": "four"}}]),
        {"text": "four"},
    ),
    Case(
        "a link",
        Answered([{"type": "resource_link", "uri": "file:///a", "name": "a", "size": 4}]),
        {"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]},
    ),
    Case("a kind to come", Answered([{"type": "smell"}]), {"content": [{"type": "smell"}]}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_answer_is_shown(case: Case) -> None:
    outcome = outcome_of(case.answer)
    assert outcome.code is None
    assert json.loads(outcome.text) == case.result


def test_an_error_is_a_failure_with_the_server_s_words_cut() -> None:
    words = {"type": "text", "text": "x" * 10_000}
    outcome = outcome_of(Answered([words], is_error=True))
    assert outcome.code == "tool_failed"
    assert json.loads(outcome.text)["error"] == "x" * 2000 + "…"


def test_an_error_without_words_says_so() -> None:
    outcome = outcome_of(Answered([], is_error=True))
    assert json.loads(outcome.text)["error"] == "the tool failed and did not say why"


async def test_failures_values_and_pictures_of_a_real_server_are_shown_as_what_they_are() -> None:
    tools = ToolServer([tool("fails"), tool("counts"), tool("draws")])
    tools.answers = {
        "fails": CallToolResult(content=[TextContent(text="no such file")], is_error=True),
        "counts": CallToolResult(content=[], structured_content={"n": 4}),
        "draws": CallToolResult(content=[ImageContent(data="aGVsbG8h", mime_type="image/png")]),
    }
    async with served_tools(tools) as served, connections(served.host) as known:
        server = web(served.url)
        found = await listed(known, server)
        came = {name: await call(known, server, found[name]) for name in found}
    assert {name: outcome.code for name, outcome in came.items()} == {
        "fails": "tool_failed",
        "counts": None,
        "draws": None,
    }
    assert json.loads(came["fails"].text)["error"] == "no such file"
    assert json.loads(came["counts"].text) == {"structured": {"n": 4}}
    picture = {"type": "image", "mime": "image/png", "size_bytes": 6}
    assert json.loads(came["draws"].text) == {"content": [picture]}
