"""An assembler is stored at any moment and read back strictly (agent-run.md 12)."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest

from app.engine.errors import InvalidRunDocument, UnsupportedRunFormat
from app.engine.streaming.assembler import StreamedTurnAssembler
from app.engine.streaming.items import Ignored, StreamItem
from app.engine.usage import FinishReason
from tests.engine.streaming.stream_items import (
    args,
    assembler,
    block,
    delta,
    feed,
    final,
    name,
    text,
    thought,
    unknown,
    whole,
)


def full() -> StreamedTurnAssembler:
    """An assembler with something in every field, parked on a name."""
    items: tuple[StreamItem, ...] = (
        text("a"),
        block("r1", thought("one", id_="rs_1")),
        block("r2", thought("two", id_="rs_1", signature="sig")),
        delta("r3", "three", "rs_3"),
        unknown({"type": "text", "text": "lost"}),
        final(FinishReason(kind="stop")),
        whole("i1"),
        name("i2", "nope"),
    )
    streamed = assembler(*items)
    streamed.resolve_pending_invalid(Ignored())
    feed(streamed, args("i3", "{"), args("i4", "{"), name("i4", "bad"))
    return streamed


def document() -> dict[str, Any]:
    return deepcopy(full().dump())


def test_every_field_survives_both_ways_of_storing() -> None:
    """A152."""
    stored = document()
    assert StreamedTurnAssembler.load(stored).dump() == stored
    assert StreamedTurnAssembler.load(json.dumps(stored)).dump() == stored
    assert stored["format"] == 1
    assert stored["kind"] == "streamed_turn_assembler"


def test_a_fresh_assembler_survives() -> None:
    stored = assembler().dump()
    assert StreamedTurnAssembler.load(stored).dump() == stored


def test_a_dump_shares_nothing_with_the_assembler() -> None:
    streamed = full()
    taken: Any = streamed.dump()
    taken["calls"]["kept"].clear()
    taken["policy"]["executable_tools"].clear()
    assert streamed.dump() == document()


@pytest.mark.parametrize("number", [0, 2])
def test_another_format_is_named(number: int) -> None:
    """A164."""
    message = f"run format {number} cannot be loaded: this engine reads format 1"
    with pytest.raises(UnsupportedRunFormat, match=message):
        StreamedTurnAssembler.load(document() | {"format": number})


@pytest.mark.parametrize("number", [None, True, "1", 1.0])
def test_a_format_that_is_no_integer_is_refused(number: object) -> None:
    """A164."""
    with pytest.raises(InvalidRunDocument, match="format"):
        StreamedTurnAssembler.load(document() | {"format": number})


def test_the_document_of_a_run_is_refused() -> None:
    with pytest.raises(InvalidRunDocument, match="kind"):
        StreamedTurnAssembler.load(document() | {"kind": "agent_run"})


@pytest.mark.parametrize("key", sorted(document()))
def test_a_missing_key_is_refused(key: str) -> None:
    """A164."""
    stored = document()
    del stored[key]
    with pytest.raises(InvalidRunDocument, match=key):
        StreamedTurnAssembler.load(stored)


@dataclass(frozen=True)
class Breach:
    """A change at `path` of the document, and what the refusal names."""

    id: str
    path: tuple[str | int, ...]
    value: object
    names: str


FIRST_DELTAS = ("calls", "deltas", 0)
BREACHES = (
    Breach("unknown-key", ("surprise",), 1, "surprise"),
    Breach("unknown-key-in-a-call", ("calls", "kept", 0, "tool_call", "x"), 1, "x"),
    Breach("text-and-block", ("reasoning", 0, "text"), "x", "exactly one"),
    Breach("neither-text-nor-block", ("reasoning", 2, "text"), None, "exactly one"),
    Breach("extends-itself", ("reasoning", 1, "extends"), 1, "reasoning/1/extends"),
    Breach("extends-a-later-part", ("reasoning", 1, "extends"), 2, "reasoning/1/extends"),
    Breach("a-root-that-extends", ("reasoning", 0, "extends"), 0, "reasoning/0/extends"),
    Breach("pending-and-extending", ("reasoning", 2, "extends"), 0, "pending part"),
    Breach("named-and-waiting", (*FIRST_DELTAS, "buffered"), ["x"], "buffered"),
    Breach("refused-and-nameless", ("calls", "deltas", 1, "refused"), "x", "refused"),
    Breach("an-id-twice", ("calls", "deltas", 1, "internal_call_id"), "i1", "twice"),
    Breach("ignored-unsorted", ("calls", "ignored"), ["i9", "i2"], "sorted"),
    Breach("parked-and-abandoned", ("calls", "abandoned"), True, "left out"),
    Breach("parked-and-ignored", ("calls", "parked", "internal_call_id"), "i2", "left out"),
    Breach(
        "parked-on-an-allowed-call",
        ("calls", "parked", "tool_call", "function", "name"),
        "add",
        "not allowed",
    ),
)


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach.id)
def test_what_no_stream_leads_to_is_refused(breach: Breach) -> None:
    stored = document()
    target: Any = stored
    for step in breach.path[:-1]:
        target = target[step]
    target[breach.path[-1]] = breach.value
    with pytest.raises(InvalidRunDocument, match=breach.names):
        StreamedTurnAssembler.load(stored)


def test_two_pending_parts_of_one_correlator_are_refused() -> None:
    stored = document()
    stored["reasoning"].append(stored["reasoning"][2])
    with pytest.raises(InvalidRunDocument, match="two pending parts"):
        StreamedTurnAssembler.load(stored)


def test_a_part_that_extends_a_pending_one_is_refused() -> None:
    stored = document()
    stored["reasoning"].append(stored["reasoning"][1] | {"extends": 2, "correlator": "r9"})
    with pytest.raises(InvalidRunDocument, match="reasoning/3/extends"):
        StreamedTurnAssembler.load(stored)
