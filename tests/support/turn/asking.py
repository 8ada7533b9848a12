"""A world whose model asks people questions."""

from __future__ import annotations

import json
from typing import Any

from app.log.calls import ToolSettled
from app.turn.agent import BoundAgent
from tests.support.turn.provider import called, reply, said
from tests.support.turn.world import World

ASKER = BoundAgent(name="tester", model="prepared", asks_questions=True)
OPTIONS: list[dict[str, Any]] = [
    {"label": "today", "consequence": "it goes out at once", "recommended": True},
    {"label": "tomorrow", "consequence": "it waits"},
]


def question(**changed: Any) -> dict[str, Any]:
    return {"header": "When", "question": "When is it to go out?", "options": OPTIONS} | changed


def asking(*questions: Any) -> World:
    """A world whose model asks these questions and then says that it is done."""
    called_so = called("c1", "ask_question", {"questions": list(questions)})
    return World([reply(called_so), reply(said("done"))], agent=ASKER)


def settled_in(world: World) -> tuple[str, Any]:
    (settled,) = world.journal.of(ToolSettled)
    return settled.outcome, json.loads(settled.result)
