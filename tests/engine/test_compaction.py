"""Where a transcript is cut, and what it is estimated at (run-context.md 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.compaction import (
    CompactionPlan,
    estimated_size,
    estimated_tokens,
    plan_compaction,
)
from app.engine.history import require_canonical
from app.engine.messages import (
    AssistantImage,
    AssistantMessage,
    AssistantText,
    Function,
    Reasoning,
    ReasoningText,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolResultImage,
    ToolResultJson,
    ToolResultText,
    UserImage,
    UserMessage,
    UserText,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.messages import Message


def call(name: str) -> ToolCall:
    return ToolCall(id=name, function=Function(name="look", arguments={}))


def said(text: str = "hello") -> UserMessage:
    return UserMessage.of_text(text)


def answered(text: str = "well") -> AssistantMessage:
    return AssistantMessage(content=(AssistantText(text=text),))


def asks(*names: str) -> AssistantMessage:
    return AssistantMessage(content=tuple(call(name) for name in names))


def results(*names: str) -> UserMessage:
    texts = (ToolResultText(text="found"),)
    return UserMessage(content=tuple(ToolResult.of(call(name), texts) for name in names))


def rounds(count: int) -> list[Message]:
    """As many calls, each with its result."""
    made: list[Message] = []
    for n in range(count):
        made += [asks(f"c{n}"), results(f"c{n}")]
    return made


@dataclass(frozen=True)
class Case:
    id: str
    messages: Sequence[Message]
    keep: int
    plan: CompactionPlan | None
    open_calls: tuple[str, ...] = ()


CHAT: list[Message] = [
    said("1"),
    answered(),
    said("2"),
    answered(),
    said("3"),
    answered(),
    said("4"),
    answered(),
]

CASES = [
    Case("nothing", [], 2, None),
    Case("too little", CHAT[:6], 4, None),
    Case("six of eight", CHAT, 2, CompactionPlan(6, None)),
    Case("four of eight are just enough", CHAT, 4, CompactionPlan(4, None)),
    Case("three are not", CHAT, 5, None),
    # Messages 0 to 9; message 7 holds the results of 6, so the cut goes back to the reply.
    Case("not between a call and its result", [said(), *rounds(4), answered()], 3,
         CompactionPlan(7, 0)),
    Case("what the user said last is pinned", [said(), *rounds(5)], 2, CompactionPlan(9, 0)),
    Case("pinned, it is none of the four", [said(), *rounds(3)], 2, CompactionPlan(5, 0)),
    Case("pinned, three are too few", [said(), *rounds(2)], 1, None),
    Case("pinned in the middle", [said(), answered(), said(), *rounds(3)], 2,
         CompactionPlan(7, 2)),
    Case("what was said last is kept anyway", [*CHAT, *rounds(1)], 4, CompactionPlan(6, None)),
    Case("not past a call without a result", [*CHAT, asks("c1"), said()], 0,
         CompactionPlan(8, None)),
    Case("nor past half of its results", [*CHAT, asks("c1", "c2"), results("c1")], 0,
         CompactionPlan(8, 6)),
    Case("nor past one that waits", [said(), *rounds(6)], 2, CompactionPlan(5, 0), ("c2",)),
    Case("one that waits at the front", [said(), *rounds(6)], 2, None, ("c0",)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_latest_cut_that_breaks_nothing(case: Case) -> None:
    """C169, T51, F55."""
    assert plan_compaction(case.messages, keep=case.keep, open_calls=case.open_calls) == case.plan


def test_c171_a_long_run_of_calls_is_folded_without_its_task() -> None:
    messages = [said("the task"), *rounds(50)]
    plan = plan_compaction(messages, open_calls=())
    assert plan == CompactionPlan(cut=81, pinned=0)
    assert plan.folded == 80


BATCHES = st.lists(st.integers(1, 3), max_size=6)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """A canonical history of several exchanges, perhaps with calls that nobody has answered."""
    messages: list[Message] = []
    number = 0
    for batches in draw(st.lists(BATCHES, max_size=6)):
        messages.append(said())
        for size in batches:
            names = [f"c{number + one}" for one in range(size)]
            number += size
            messages += [asks(*names), results(*names)]
        messages.append(answered())
    if draw(st.booleans()):
        messages += [said(), asks("open")]
    return messages


@given(histories(), st.integers(0, 30), st.sets(st.sampled_from(["c0", "c3", "c7", "open"])))
def test_c174_any_history_is_cut_where_nothing_is_torn(
    messages: list[Message], keep: int, waiting: set[str]
) -> None:
    """C170, F55: the rest is a history that a provider takes, and loses nothing that is open."""
    plan = plan_compaction(messages, keep=keep, open_calls=waiting)
    if plan is None:
        return
    folded, kept = messages[: plan.cut], messages[plan.cut :]
    assert len(kept) >= keep
    assert plan.folded >= 4
    require_canonical(folded)
    closed = kept if not kept or "open" not in str(kept[-1]) else kept[:-1]
    require_canonical(closed)
    assert not waiting & {
        part.id
        for message in folded
        if isinstance(message, AssistantMessage)
        for part in message.content
        if isinstance(part, ToolCall)
    }
    newest = max(
        (at for at, one in enumerate(messages) if isinstance(one, UserMessage)
         and isinstance(one.content[0], UserText)),
        default=None,
    )  # fmt: skip
    assert plan.pinned == (newest if newest is not None and newest < plan.cut else None)


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 1), ("abc", 1), ("abcd", 2), ("é" * 4, 3), ("\ud800", 1)]
)
def test_a_text_is_a_quarter_of_its_bytes_and_one(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


def test_messages_are_estimated_by_their_parts() -> None:
    """4 a message, 256 for each thing that is no text."""
    picture = "data:image/png;base64,AAAA"
    assert estimated_size([]) == 0
    assert estimated_size([SystemMessage(text="abcd")]) == 4 + 2
    assert estimated_size([said("abcd"), answered("")]) == 4 + 2 + 4 + 1
    assert estimated_size([UserMessage(content=(UserImage(source=picture),))]) == 4 + 256
    assert estimated_size([AssistantMessage(content=(AssistantImage(source=picture),))]) == 260
    # look{} has 6 bytes.
    assert estimated_size([asks("c1")]) == 4 + 2
    assert estimated_size([results("c1")]) == 4 + 2
    thought = Reasoning(content=(ReasoningText(text="abcd"), ReasoningText(text="")))
    assert estimated_size([AssistantMessage(content=(thought,))]) == 4 + 2 + 1
    as_json = (ToolResultJson(value={"a": 1}), ToolResultImage(source=picture))
    assert estimated_size(
        [UserMessage(content=(ToolResult.of(call("c1"), as_json),))]
    ) == 4 + 2 + 256  # fmt: skip
