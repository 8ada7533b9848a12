"""P8 and P17: neither the cutting of a stream nor a reload in it changes the turn."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.streaming.assembler import StreamedTurnAssembler
from app.engine.streaming.items import (
    Ignored,
    InvalidToolCall,
    ReasoningDeltaItem,
    Repaired,
    StreamedResolution,
    StreamItem,
    TextItem,
    ToolCallArgumentsItem,
    TurnAbandoned,
)
from tests.engine.streaming.stream_items import (
    POLICY,
    args,
    block,
    delta,
    name,
    text,
    thought,
    unknown,
    whole,
)

if TYPE_CHECKING:
    from app.engine.errors import CompletionError

IDS = st.sampled_from(["i1", "i2", "i3"])
TOOLS = st.sampled_from(["add", "subtract", "nope"])
CORRELATORS = st.sampled_from(["a", "b", "c"])
PROVIDER_IDS = st.sampled_from([None, "rs_1", "rs_2"])
PIECES = st.text("xyz", max_size=4)
ITEMS: st.SearchStrategy[StreamItem] = st.one_of(
    st.builds(text, PIECES),
    st.builds(delta, CORRELATORS, PIECES, PROVIDER_IDS),
    st.builds(lambda c, t, i: block(c, thought(t, id_=i)), CORRELATORS, PIECES, PROVIDER_IDS),
    st.builds(whole, IDS, TOOLS),
    st.builds(name, IDS, TOOLS),
    st.builds(args, IDS, PIECES),
    st.builds(unknown, st.sampled_from([{"type": "x"}, {"type": "text", "text": "t"}])),
)
RESOLUTIONS: st.SearchStrategy[StreamedResolution] = st.sampled_from(
    [Repaired(tool_name="add"), Ignored(), TurnAbandoned()]
)


def drive(
    items: list[StreamItem], resolutions: list[StreamedResolution], reloads: set[int] | None = None
) -> StreamedTurnAssembler:
    """Take `items` in, resolving what is parked in turn, reloading before the given steps."""
    streamed = StreamedTurnAssembler(POLICY)
    for step, item in enumerate(items):
        if reloads is not None and step in reloads:
            streamed = StreamedTurnAssembler.load(streamed.dump())
        for event in streamed.ingest(item):
            if isinstance(event, InvalidToolCall):
                if reloads is not None:
                    streamed = StreamedTurnAssembler.load(streamed.dump())
                streamed.resolve_pending_invalid(resolutions[step % len(resolutions)])
    return streamed


def outcome(streamed: StreamedTurnAssembler) -> tuple[object, ...]:
    error: CompletionError | None = streamed.pending_delta_error()
    return streamed.finish("m", ()), streamed.partial_turn(), str(error)


@settings(max_examples=60)
@given(
    st.lists(ITEMS, max_size=14),
    st.lists(RESOLUTIONS, min_size=1, max_size=4),
    st.sets(st.integers(0, 13)),
)
def test_a_reload_between_any_two_items_changes_nothing(
    items: list[StreamItem], resolutions: list[StreamedResolution], reloads: set[int]
) -> None:
    """P17, A152."""
    live = drive(items, resolutions)
    reloaded = drive(items, resolutions, reloads)
    assert reloaded.dump() == live.dump()
    assert outcome(reloaded) == outcome(live)


def cut(item: StreamItem, sizes: list[int]) -> list[StreamItem]:
    """The item in pieces of the given sizes; items that are no delta stay whole."""
    match item:
        case TextItem(text=value):
            return [text(piece) for piece in pieces(value, sizes)]
        case ReasoningDeltaItem(correlator=correlator, text=value, provider_id=id_):
            return [delta(correlator, piece, id_) for piece in pieces(value, sizes)]
        case ToolCallArgumentsItem(internal_call_id=internal, delta=value):
            return [args(internal, piece) for piece in pieces(value, sizes)]
        case _:
            return [item]


def pieces(value: str, sizes: list[int]) -> list[str]:
    cuts = sorted({min(size, len(value)) for size in sizes} | {0, len(value)})
    return [value[start:end] for start, end in pairwise(cuts)] or [value]


@settings(max_examples=60)
@given(
    st.lists(ITEMS, max_size=14),
    st.lists(st.integers(1, 3), max_size=3),
)
def test_any_chunking_gives_the_same_turn(items: list[StreamItem], sizes: list[int]) -> None:
    """P8."""
    chunked = [piece for item in items for piece in cut(item, sizes)]
    decisions: list[StreamedResolution] = [Repaired(tool_name="add")]
    coarse, fine = drive(items, decisions), drive(chunked, decisions)
    assert coarse.finish("m", ()) == fine.finish("m", ())
    assert coarse.partial_turn() == fine.partial_turn()
