"""Questions as they are projected and read: answers in part, reach, what is overdue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.log.queries import Page, Reach
from tests.support.database.postgres import (
    Talk,
    after,
    new_id,
    paused,
    question_answered,
    question_asked,
)

if TYPE_CHECKING:
    from app.log.approvals import QuestionOutcome
    from app.log.records import QuestionRecord
    from app.store.open import Store

pytestmark = pytest.mark.postgres


async def read(store: Store, tenant: str, question_id: str) -> QuestionRecord:
    async with store.database.session(tenant) as session:
        question = await session.question(question_id)
    assert question is not None
    return question


async def status_of(store: Store, tenant: str, run_id: str) -> str:
    async with store.database.session(tenant) as session:
        run = await session.run(run_id)
    assert run is not None
    return run.status


async def asked(store: Store, tenant: str, *, count: int = 1) -> tuple[Talk, str, str]:
    """A conversation with a run that is paused on so many questions of one call."""
    talk, question = await Talk(store, tenant).open(participants=["carol"]), new_id("ques")
    run_id = await talk.ask()
    await talk.request(
        question_asked(question, run_id, count=count), paused(run_id, questions=[question])
    )
    return talk, run_id, question


async def test_what_an_answer_is_bound_to_comes_from_the_private_column(
    store: Store, tenant: str
) -> None:
    _, run_id, question = await asked(store, tenant)
    found = await read(store, tenant, question)
    assert (found.run_id, found.call_id, found.principal) == (run_id, "call_0_1", "alice")
    assert (found.turn_id, found.args_sha256) == ("turn_0", "a" * 64)
    assert (found.roles, found.programs, found.answers) == (("boss",), ("robot",), ())


async def test_answers_add_up_and_the_last_one_settles(store: Store, tenant: str) -> None:
    talk, run_id, question = await asked(store, tenant, count=3)
    await talk.request(question_answered(question, run_id, indexes=(2,)))
    assert (await read(store, tenant, question)).status == "pending"
    assert await status_of(store, tenant, run_id) == "paused"
    await talk.request(question_answered(question, run_id, indexes=(0, 1)))
    found = await read(store, tenant, question)
    assert found.status == "answered"
    assert [answer["index"] for answer in found.answers] == [2, 0, 1]
    assert found.answers[0] == {"index": 2, "text": "that\0", "answered_by": "bob"}
    assert await status_of(store, tenant, run_id) == "queued"


@pytest.mark.parametrize("outcome", ["auto_resolved", "cancelled"])
async def test_it_may_end_without_all_of_its_answers(
    store: Store, tenant: str, outcome: QuestionOutcome
) -> None:
    talk, run_id, question = await asked(store, tenant, count=2)
    await talk.request(question_answered(question, run_id, indexes=(1,)))
    await talk.request(question_answered(question, run_id, outcome, indexes=()))
    found = await read(store, tenant, question)
    assert (found.status, len(found.answers)) == (outcome, 1)


async def test_what_is_settled_stays_as_it_is(store: Store, tenant: str) -> None:
    talk, run_id, question = await asked(store, tenant)
    await talk.request(question_answered(question, run_id))
    await talk.request(question_answered(question, run_id, "cancelled", indexes=()))
    assert (await read(store, tenant, question)).status == "answered"


@pytest.mark.parametrize(
    ("reach", "seen"),
    [
        (Reach(None), True),
        (Reach("alice"), True),
        (Reach("carol"), True),
        (Reach("bob"), False),
        (Reach("bob", frozenset({"boss"})), True),
        (Reach("robot"), True),
    ],
    ids=["admin", "principal", "participant", "nobody", "approver", "program"],
)
async def test_whose_questions_a_list_shows(
    store: Store, tenant: str, reach: Reach, seen: bool
) -> None:
    _, run_id, question = await asked(store, tenant)
    async with store.database.session(tenant) as session:
        found = await session.questions(reach, Page(), filters={"run_id": run_id})
        assert [one.id for one in found] == ([question] if seen else [])
        assert await session.questions(reach, Page(), filters={"status": "answered"}) == []
        with pytest.raises(ValueError, match="filters"):
            await session.questions(reach, Page(), filters={"agent": "helper"})
    async with store.database.session(f"{tenant}-other") as foreign:
        assert await foreign.questions(Reach(None), Page(), filters={}) == []
        assert await foreign.question(question) is None


async def test_overdue_questions_are_those_pending_past_their_time(
    store: Store, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask()
    due, endless, settled = [new_id("ques") for _ in range(3)]
    await talk.request(
        question_asked(due, run_id, expires_at="2026-11-29T12:01:00.000Z"),
        question_asked(settled, run_id, expires_at="2026-11-29T12:01:00.000Z"),
        question_asked(endless, run_id),
        question_answered(settled, run_id),
    )
    assert (tenant, due) not in await store.queue.overdue_questions(after(59), 1000)
    found = await store.queue.overdue_questions(after(60), 1000)
    assert [item for item in found if item[0] == tenant] == [(tenant, due)]
