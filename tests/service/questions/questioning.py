"""Runs whose agent asks people, and what becomes of the answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from app.service.requests import GivenAnswer

if TYPE_CHECKING:
    from app.log.records import QuestionRecord, RunRecord
    from tests.support.service.house import House

TWO: list[dict[str, Any]] = [
    {
        "header": "When",
        "question": "When is it to go out?",
        "options": [
            {"label": "today", "consequence": "at once", "recommended": True},
            {"label": "tomorrow", "consequence": "it waits"},
        ],
    },
    {
        "header": "Who",
        "question": "Who is to get it?",
        "options": [{"label": "Ann"}, {"label": "Ben"}, {"label": "both"}],
    },
]


def asks(*questions: Any, more: str = "") -> str:
    """A script that asks these questions in one call, with more calls beside it."""
    return f"call ask_question {json.dumps({'questions': questions})}\n{more}---\nsay done"


async def asked(house: House, *questions: Any, more: str = "", **agent: Any) -> RunRecord:
    """A run of alice's that has asked."""
    alice = await house.person()
    tools = [*house.tools.names, "ask_question"]
    await house.agent(**{"tools": tools, "approval": {"mutate": "ask"}} | agent)
    return await house.drive(await alice.run(asks(*questions or TWO, more=more)))


async def question_of(house: House, run: RunRecord) -> QuestionRecord:
    (question,) = await house.questions_of(run)
    return question


def option(index: int, option: int) -> GivenAnswer:
    return GivenAnswer(index=index, option=option)


BOTH = (option(0, 1), GivenAnswer(index=1, declined=True))


async def result_of(house: House, run: RunRecord) -> list[dict[str, Any]]:
    """The answers as the model sees them."""
    (settled,) = await house.data(run, "tool.settled")
    assert settled["outcome"] == "answered"
    answers: list[dict[str, Any]] = json.loads(settled["result"])["answers"]
    return answers
