"""Deltas and complete blocks of reasoning become parts (agent-run.md 8.2)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.engine.messages import Reasoning
from app.engine.streaming.items import EmitIngested, StreamItem
from tests.engine.streaming.stream_items import assembler, block, delta, feed, thought, whole


@dataclass(frozen=True)
class Case:
    id: str
    items: tuple[StreamItem, ...]
    parts: tuple[Reasoning, ...]


SIGNED = thought("whole", signature="sig")
CASES = (
    Case(
        "interleaved-deltas (A55, A57, A65)",
        (
            delta("a", "first ", "rs_a"),
            delta("b", "second", "rs_b"),
            delta("a", "part"),
        ),
        (thought("first part", id_="rs_a"), thought("second", id_="rs_b")),
    ),
    Case(
        "a-call-in-between (A57)",
        (delta("a", "first "), delta("a", "part"), whole("i1"), delta("b", "second")),
        (thought("first part"), thought("second")),
    ),
    Case(
        "delta-only-and-completed (A58)",
        (delta("a", "new"), block("b", thought("enc", id_="rd_1"))),
        (thought("new"), thought("enc", id_="rd_1")),
    ),
    Case(
        "restated-with-a-signature (A59)",
        (delta("a", "who"), block("a", thought("whole")), block("a", SIGNED)),
        (SIGNED,),
    ),
    Case(
        "restated-with-a-provider-id (A60)",
        (
            delta("a", "who", "rs_1"),
            block("a", thought("whole", id_="rs_1")),
            block("a", thought("whole", id_="rs_1", signature="sig")),
        ),
        (thought("whole", id_="rs_1", signature="sig"),),
    ),
    Case("completed-with-a-signature (A61)", (delta("a", "who"), block("a", SIGNED)), (SIGNED,)),
    Case(
        "completed-under-another-correlator (A62)",
        (delta("a", "delta", "rs_1"), block("b", thought("whole", id_="rs_1"))),
        (thought("whole", id_="rs_1"),),
    ),
    Case(
        "blocks-of-one-provider-id (A63)",
        (
            block("corr_1", thought("one", id_="rs_1")),
            block("corr_2", thought("two", id_="rs_1")),
            block("corr_3", thought("three", id_="rs_2")),
        ),
        (thought("one", "two", id_="rs_1"), thought("three", id_="rs_2")),
    ),
    Case(
        "a-third-block-of-one-provider-id",
        (
            block("corr_1", thought("one", id_="rs_1")),
            block("corr_2", thought("two", id_="rs_1")),
            block("corr_3", thought("three", id_="rs_1")),
        ),
        (thought("one", "two", "three", id_="rs_1"),),
    ),
    Case(
        "an-extending-block-is-restated-alone",
        (
            block("corr_1", thought("one", id_="rs_1")),
            block("corr_2", thought("two", id_="rs_1")),
            block("corr_2", thought("TWO", id_="rs_1")),
        ),
        (thought("one", "TWO", id_="rs_1"),),
    ),
    Case(
        "blocks-without-ids (A64)",
        (block("a", thought("one")), block("b", thought("two"))),
        (thought("one"), thought("two")),
    ),
    Case(
        "a-delta-after-a-completion (A56)",
        (delta("a", "old"), block("a", thought("whole")), delta("a", "new")),
        (thought("whole"), thought("new")),
    ),
    Case(
        "the-later-part-of-a-correlator-is-completed",
        (
            delta("a", "old"),
            block("a", thought("whole")),
            delta("a", "new"),
            block("a", thought("newer")),
        ),
        (thought("whole"), thought("newer")),
    ),
    Case(
        "the-correlator-before-the-provider-id",
        (
            delta("a", "one", "rs_1"),
            delta("b", "two", "rs_1"),
            block("b", thought("TWO", id_="rs_1")),
        ),
        (thought("one", id_="rs_1"), thought("TWO", id_="rs_1")),
    ),
    Case(
        "a-pending-part-before-a-complete-one",
        (
            block("a", thought("one", id_="rs_1")),
            delta("b", "two", "rs_1"),
            block("c", thought("TWO", id_="rs_1")),
        ),
        (thought("one", id_="rs_1"), thought("TWO", id_="rs_1")),
    ),
    Case(
        "the-first-provider-id-stays",
        (delta("a", "x"), delta("a", "y", "rs_1"), delta("a", "z", "rs_2")),
        (thought("xyz", id_="rs_1"),),
    ),
    Case("an-empty-pending-part", (delta("a", ""), delta("b", "kept")), (thought("kept"),)),
    Case("an-empty-block", (block("a", Reasoning(content=())),), (Reasoning(content=()),)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_items_become_parts_in_order_of_first_arrival(case: Case) -> None:
    """A55, A57, A58, A59, A60, A61, A62, A63, A64, A65, A66: also in the partial turn."""
    streamed = assembler(*case.items)
    assert streamed.partial_turn().reasoning == case.parts
    finished = streamed.finish(None, ()).choice
    assert tuple(part for part in finished if isinstance(part, Reasoning)) == case.parts


def test_reasoning_is_forwarded() -> None:
    events = feed(assembler(), delta("a", "x"), block("a", thought("y")))
    assert events == [EmitIngested(), EmitIngested()]


def test_the_aggregate_is_that_of_the_pending_part() -> None:
    """A55, A56."""
    streamed = assembler(delta("a", "first "), delta("b", "second"), delta("a", "part"))
    assert streamed.aggregated_reasoning("a") == "first part"
    assert streamed.aggregated_reasoning("b") == "second"
    assert streamed.aggregated_reasoning("z") is None
    feed(streamed, block("a", thought("whole")))
    assert streamed.aggregated_reasoning("a") is None
    feed(streamed, delta("a", "new"))
    assert streamed.aggregated_reasoning("a") == "new"
