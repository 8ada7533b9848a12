"""What is pinned of a server: requirements only ever grow (turn.md 5.2, T86)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from app.log.servers import McpListing, McpServerRecord, McpTool
from app.policy.profile import Origin
from app.service.agents.mcp_pins import MAX_REMEMBERED, pinned
from tests.support.stepped_clock import NOON

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = McpServerRecord(
    tenant="acme",
    name="box",
    transport="http",
    url="https://mcp.example/mcp",
    command=None,
    headers={},
    registered=True,
    profile={},
    created_at=NOON,
)
READ: dict[str, Any] = {"read_only": True, "open_world": False, "idempotent": True}


def declared(name: str = "pay", description: str = "Pays.", **hints: bool) -> McpTool:
    return McpTool(name=name, description=description, parameters={"type": "object"}, hints=hints)


def after(server: McpServerRecord, *tools: McpTool) -> McpServerRecord:
    return pinned(server, McpListing(tools=tools), now=NOON)


def said() -> Iterator[dict[str, Any]]:
    """Every way to speak of oneself: yes, no, and nothing, for each flag."""
    names = ("read_only", "destructive", "open_world", "idempotent")
    for values in product((True, False, None), repeat=4):
        yield {name: v for name, v in zip(names, values, strict=True) if v is not None}


@pytest.mark.parametrize("registered", [True, False])
def test_t86_declared_again_a_tool_requires_all_it_required_before(*, registered: bool) -> None:
    """I12, for all pairs; the origin is the operator's word and stays."""
    server = replace(SERVER, registered=registered)
    origin = Origin.REGISTERED_CONNECTOR if registered else Origin.UNKNOWN
    every = list(said())
    for first in every:
        one = after(server, declared(**first))
        for second in every:
            two = after(one, declared(**second))
            before, now = one.profile_of(one.tools[0]), two.profile_of(two.tools[0])
            assert now.required() >= before.required()
            assert now.ingests_untrusted >= before.ingests_untrusted
            assert one.tools[0].idempotent >= two.tools[0].idempotent
            assert now.origin is before.origin is origin


def test_what_a_server_does_not_say_is_taken_for_the_worst() -> None:
    (tool,) = after(SERVER, declared()).tools
    assert (tool.read_only, tool.destructive, tool.open_world) == (False, True, True)
    assert not tool.idempotent


def test_a_tool_that_only_reads_destroys_nothing_unless_it_says_both() -> None:
    (tool,) = after(SERVER, declared(read_only=True)).tools
    assert not tool.destructive
    (tool,) = after(SERVER, declared(read_only=True, destructive=True)).tools
    assert tool.destructive


def test_a_tool_that_disappears_comes_back_as_what_it_was() -> None:
    """A server cannot have itself forgotten by leaving a tool out once."""
    worst = after(SERVER, declared())
    gone = after(worst)
    assert [tool.is_listed for tool in gone.tools] == [False]
    (back,) = after(gone, declared(**READ)).tools
    assert back.is_listed
    assert (back.read_only, back.destructive, back.open_world) == (False, True, True)


def test_the_operator_s_word_stands_above_the_server_s_in_both_directions() -> None:
    strict = replace(SERVER, profile={"pay": {"read_only": False, "destructive": True}})
    (tool,) = after(strict, declared(**READ)).tools
    assert (tool.read_only, tool.destructive, tool.open_world) == (False, True, False)
    lenient = replace(SERVER, profile={"pay": {"read_only": True, "destructive": False}})
    (tool,) = after(lenient, declared(destructive=True)).tools
    assert (tool.read_only, tool.destructive) == (True, False)


def test_nothing_new_changes_nothing() -> None:
    server = after(SERVER, declared(**READ), declared("look"))
    assert after(server, declared("look"), declared(**READ)) is server


def test_a_truth_where_a_one_was_is_another_definition() -> None:
    one = replace(declared(), parameters={"type": "object", "default": 1})
    true = replace(declared(), parameters={"type": "object", "default": True})
    server = after(SERVER, one)
    assert after(server, true) is not server
    assert after(server, true).tools[0].parameters["default"] is True


def test_a_server_that_is_away_keeps_what_is_pinned_of_it() -> None:
    server = after(SERVER, declared())
    away = pinned(server, McpListing(why_not="gone"), now=NOON)
    assert (away.why_not, away.tools) == ("gone", server.tools)
    assert pinned(away, McpListing(why_not="gone"), now=NOON) is away
    assert after(away, declared()).why_not is None


def test_what_is_remembered_of_a_server_is_bounded() -> None:
    server = SERVER
    for listing in range(5):
        server = after(server, *(declared(f"t{listing}-{n}") for n in range(256)))
    assert len(server.tools) == MAX_REMEMBERED
    assert len(server.refused) == 256
    assert all("too many" in sentence for sentence in server.refused)
