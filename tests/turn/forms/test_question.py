"""What may be asked, and what is an error result instead (turn.md 7.2, T131)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from app.turn.result import EndedBy
from tests.support.turn.asking import asking, question, settled_in


@dataclass(frozen=True)
class Bad:
    """Questions that nobody is asked, and the words that tell the model why."""

    id: str
    questions: list[Any]
    why: str


def options(count: int) -> list[dict[str, Any]]:
    return [{"label": f"option {at}", "consequence": ""} for at in range(count)]


BAD = [
    Bad("no question", [], "/questions: List should have at least 1 item"),
    Bad("four questions", [question()] * 4, "/questions: List should have at most 3 items"),
    Bad("one option", [question(options=options(1))], "/questions/0/options: List should have at"),
    Bad("five options", [question(options=options(5))], "/questions/0/options: List should have"),
    Bad("long header", [question(header="x" * 13)], "/questions/0/header: String should have at"),
    Bad("long question", [question(question="x" * 301)], "/questions/0/question: String should"),
    Bad("blank question", [question(question=" ")], "/questions/0/question: "),
    Bad(
        "long label",
        [question(options=[{"label": "x" * 61}, {"label": "b"}])],
        "/questions/0/options/0/label: String should have at most 60 characters",
    ),
    Bad(
        "long consequence",
        [question(options=[{"label": "a", "consequence": "x" * 201}, {"label": "b"}])],
        "/questions/0/options/0/consequence: String should have at most 200 characters",
    ),
    Bad(
        "two recommended",
        [question(options=[{"label": label, "recommended": True} for label in "ab"])],
        "at most one option may be recommended",
    ),
    Bad(
        "an option for anything else",
        [question(options=[{"label": "a"}, {"label": " Other"}])],
        'leave out "other"',
    ),
    Bad(
        "options that do not exclude each other",
        [question(options=[{"label": "a"}, {"label": "A "}])],
        "each option needs a label of its own",
    ),
    Bad("an unknown member", [question(other=True)], "/questions/0/other: "),
    Bad("no object", ["when?"], "/questions/0: "),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
async def test_t131_a_bad_question_is_an_error_result_and_pauses_nothing(case: Bad) -> None:
    """I5: nobody is asked. The model is told in a sentence without a code (turn.md 9)."""
    world = asking(*case.questions)
    ended = await world.turn()
    assert (ended.ended_by, ended.text) == (EndedBy.ANSWER, "done")
    assert ended.pending_questions == ()
    outcome, result = settled_in(world)
    assert outcome == "invalid_arguments"
    assert result.keys() == {"error"}
    assert case.why in result["error"]
    assert "question.asked" not in world.journal.types


async def test_t131_the_limits_themselves_are_allowed() -> None:
    longest = question(
        header="x" * 12,
        question="x" * 300,
        options=[{"label": f"{at}" * 60, "consequence": "x" * 200} for at in range(4)],
    )
    paused = await asking(longest, question(), question()).turn()
    assert [one.index for one in paused.pending_questions] == [0, 1, 2]
