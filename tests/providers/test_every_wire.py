"""What every vendor's wire must carry, once in each format: a new format fills in a whole `Wire`.

Text in pieces with usage at the end, calls side by side, a refusal, a server that asks for
patience, and a stream that is cut before and after its first piece.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from app.engine.usage import Usage
from app.turn.agent import BoundAgent
from app.turn.ports import FailureKind
from app.turn.result import EndedBy
from tests.providers.vendors import CHAT, CLAUDE, ask, asking
from tests.support.loopback.model_servers import (
    Answer,
    call_piece,
    chat,
    chat_piece,
    claude,
    claude_call,
    claude_text,
    refused,
)
from tests.support.loopback.search_servers import GEMINI, gemini
from tests.support.turn.tools import MemoryTool
from tests.support.turn.world import World


@dataclass(frozen=True)
class Wire:
    """How one vendor streams the same things; `first_piece` is the place of the first text."""

    said: Answer
    usage: Usage
    first_piece: int
    called: Answer
    refusal: Answer
    limited: dict[str, Any]

    def cut(self, pieces: int) -> Answer:
        """What was said, broken off by the network after so many pieces."""
        return replace(self.said, pieces=self.said.pieces[:pieces], ending="cut")


STOP = chat_piece({}, finish="stop")
TALK = {"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57}
WIRES = {
    CHAT: Wire(
        said=chat(
            chat_piece({"role": "assistant"}),
            chat_piece({"content": "Grüße "}),
            chat_piece({"content": "dir"}),
            STOP,
            chat_piece(usage=TALK),
        ),
        usage=Usage(input_tokens=50, output_tokens=7, total_tokens=57),
        first_piece=1,
        called=chat(
            call_piece(0, "", name="look_up", call_id="a"),
            call_piece(1, '{"q"', name="look_up", call_id="b"),
            call_piece(0, '{"q":"ä'),
            call_piece(1, ':"ö"}'),
            call_piece(0, '"}'),
            chat_piece({}, finish="tool_calls"),
        ),
        refusal=chat(chat_piece({"refusal": "I can"}), chat_piece({"refusal": "not."}), STOP),
        limited={"error": {"message": "slow down", "code": "rate_limit_exceeded"}},
    ),
    CLAUDE: Wire(
        said=claude(claude_text("Grüße ", "dir")),
        usage=Usage(
            input_tokens=73,
            output_tokens=9,
            total_tokens=82,
            cached_input_tokens=22,
            cache_creation_input_tokens=11,
        ),
        first_piece=2,
        called=claude(
            claude_call("a", "", '{"q"', ':"ä"}'),
            claude_call("b", '{"q":"', "ö", '"}'),
            stop="tool_use",
        ),
        refusal=claude(claude_text("I can", "not."), stop="refusal"),
        limited={"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}},
    ),
    GEMINI: Wire(
        said=Answer(
            [
                gemini({"text": "Grüße "}),
                gemini({"text": "dir"}),
                gemini(finish="STOP", promptTokenCount=50, candidatesTokenCount=7),
            ]
        ),
        usage=Usage(input_tokens=50, output_tokens=7, total_tokens=57),
        first_piece=0,
        # Its arguments are values, which never come in pieces.
        called=Answer(
            [
                gemini({"functionCall": {"id": "a", "name": "look_up", "args": {"q": "ä"}}}),
                gemini(
                    {"functionCall": {"id": "b", "name": "look_up", "args": {"q": "ö"}}},
                    finish="STOP",
                ),
            ]
        ),
        refusal=Answer([gemini({"text": "I can"}), gemini({"text": "not."}, finish="SAFETY")]),
        limited={"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}},
    ),
}
every_wire = pytest.mark.parametrize("model", WIRES)


@every_wire
async def test_text_comes_in_its_pieces_and_usage_at_the_end(model: str) -> None:
    wire = WIRES[model]
    replied, _ = await ask(model, wire.said)
    assert replied.texts == ["Grüße ", "dir"]
    assert replied.final.usage == wire.usage


@every_wire
async def test_parallel_calls_are_whole_and_in_order(model: str) -> None:
    replied, _ = await ask(model, WIRES[model].called)
    assert [(call.id, call.function.name) for call in replied.calls] == [
        ("a", "look_up"),
        ("b", "look_up"),
    ]
    assert replied.sent_arguments == ['{"q":"ä"}', '{"q":"ö"}']
    assert replied.final.finish_reason is not None
    assert replied.final.finish_reason.kind == "tool_calls"


@every_wire
async def test_a_refusal_is_text_that_was_cut_by_a_filter(model: str) -> None:
    replied, _ = await ask(model, WIRES[model].refusal)
    assert replied.text == "I cannot."
    assert replied.final.finish_reason is not None
    assert replied.final.finish_reason.kind == "content_filter"


@every_wire
async def test_a_429_is_waited_out_by_the_clock_as_long_as_the_server_wishes(model: str) -> None:
    """T12: seven seconds of the played clock, then the answer, from a second request."""
    limited = refused(429, WIRES[model].limited, ("Retry-After", "7"))
    async with asking(model, limited, WIRES[model].said) as (provider, server):
        world = World([])
        world.provider = provider
        result = await world.turn()
    assert (result.text, result.steps) == ("Grüße dir", 1)
    assert world.clock.slept == [7.0]
    assert len(server.asked) == 2


@every_wire
async def test_a_stream_cut_before_its_first_piece_is_asked_for_again(model: str) -> None:
    """T11."""
    wire = WIRES[model]
    async with asking(model, wire.cut(wire.first_piece), wire.said) as (provider, server):
        world = World([])
        world.provider = provider
        result = await world.turn()
    assert result.text == "Grüße dir"
    assert (world.clock.slept, len(server.asked)) == ([0.375], 2)


@every_wire
async def test_a_stream_cut_after_its_first_piece_ends_the_turn_and_keeps_it(model: str) -> None:
    """T15: asked once, for nothing of it may be said twice."""
    wire = WIRES[model]
    async with asking(model, wire.cut(wire.first_piece + 1)) as (provider, server):
        world = World([])
        world.provider = provider
        result = await world.turn()
    assert result.ended_by is EndedBy.FAILURE
    assert result.mid_stream_failure is not None
    assert result.mid_stream_failure.kind is FailureKind.UNAVAILABLE
    assert result.text == "Grüße "
    assert len(server.asked) == 1


@every_wire
async def test_calls_of_a_stream_that_was_cut_never_run(model: str) -> None:
    """All of one call and a part of the next had come."""
    pieces = WIRES[model].called.pieces[:-1]
    tool = MemoryTool("look_up")
    async with asking(model, Answer(pieces, ending="cut")) as (provider, _):
        world = World([], tool, agent=BoundAgent(name="tester", model="m"))
        world.provider = provider
        result = await world.turn()
    assert (result.ended_by, result.executed_calls) == (EndedBy.FAILURE, 0)
    assert world.tools.ran == []
