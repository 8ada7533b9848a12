"""Questions and answers where processes die and databases are altered (turn.md 6.2, 7.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.service.deaths import doomed, killed, other
from tests.service.questions.questioning import (
    BOTH,
    TWO,
    asked,
    asks,
    option,
    question_of,
    result_of,
)
from tests.support.database.postgres import as_owner

if TYPE_CHECKING:
    from app.log.records import RunRecord
    from tests.support.log.killed import Moment
    from tests.support.service.house import House

pytestmark = [pytest.mark.postgres, pytest.mark.fault]


async def begun(house: House) -> RunRecord:
    """A run whose agent is going to ask."""
    alice = await house.person()
    await house.agent(tools=[*house.tools.names, "ask_question"])
    return await alice.run(asks(*TWO))


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("event", ["message.assistant", "question.asked", "run.paused"])
async def test_a_worker_that_dies_while_it_asks_asks_once(
    house: House, event: str, moment: Moment
) -> None:
    run = await begun(house)
    await killed(doomed(house, event, moment), run)
    run = await other(house).drive(run)
    assert run.status == "paused"
    question = await question_of(house, run)
    await (await house.person()).answer(question, *BOTH)
    assert (await house.drive(run)).status == "completed"
    assert len(await house.data(run, "question.asked")) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("event", ["run.resumed", "tool.settled", "step.completed"])
async def test_a_worker_that_dies_with_the_answers_in_hand_loses_none(
    house: House, event: str, moment: Moment
) -> None:
    run = await asked(house)
    await (await house.person()).answer(await question_of(house, run), *BOTH)
    await killed(doomed(house, event, moment), run)
    assert (await other(house).drive(run)).status == "completed"
    first, second = await result_of(house, run)
    assert (first["label"], second["outcome"]) == ("tomorrow", "declined")


async def alter(house: House, run: RunRecord, change: str, *arguments: Any) -> None:
    """Change the stored answers behind the service's back."""
    statement = f"UPDATE events SET {change} WHERE conversation_id = $1"  # noqa: S608 - our own
    async with as_owner(house.store) as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(
            f"{statement} AND type = 'question.answered'", run.conversation_id, *arguments
        )


async def asks_again(house: House, run: RunRecord) -> None:
    """The stored answer was worth nothing: the call asks again, and an answer to that holds."""
    run = await house.drive(run)
    assert run.status == "paused"
    first, second = await house.questions_of(run)
    assert (first.status, second.status) == ("answered", "pending")
    assert [item.id for item in run.pending_questions] == [second.id]
    await (await house.person()).answer(second, option(0, 0), option(1, 0))
    assert (await house.drive(run)).status == "completed"
    assert [one["label"] for one in await result_of(house, run)] == ["today", "Ann"]


@pytest.mark.parametrize("bytes_", [None, b"a.b.c", b"\xff"], ids=["none", "other", "no text"])
async def test_an_answer_that_the_service_did_not_sign_is_none(
    house: House, bytes_: bytes | None
) -> None:
    run = await asked(house)
    await (await house.person()).answer(await question_of(house, run), *BOTH)
    await alter(house, run, "private = $2::bytea", bytes_)
    await asks_again(house, run)


async def test_t68_an_answer_of_another_run_is_none(house: House) -> None:
    """Moved from run A to run B, the same bytes answer nothing, and neither does a decision."""
    alice = await house.person()
    ours, theirs = await asked(house), await asked(house)
    for run in (ours, theirs):
        await alice.answer(await question_of(house, run), *BOTH)
    found = await house.store.everyone.pool.fetchval(
        "SELECT private FROM events WHERE conversation_id = $1 AND type = 'question.answered'",
        theirs.conversation_id,
    )
    await alter(house, ours, "private = $2", found)
    await asks_again(house, ours)


async def test_t68_a_decision_in_place_of_an_answer_is_none(house: House) -> None:
    alice = await house.person()
    run = await asked(house, more='call mutate {"to":"a"}\n')
    (approval,) = await house.pending(run)
    await alice.approve(approval)
    await alice.answer(await question_of(house, run), *BOTH)
    (decided,) = (await house.asked(run))[0].decisions
    await alter(house, run, "private = $2", decided.signed)
    run = await house.drive(run)
    assert run.status == "paused"
    assert len(await house.questions_of(run)) == 2


async def test_what_the_projection_says_of_an_answer_is_not_believed(house: House) -> None:
    run = await asked(house)
    await (await house.person()).answer(await question_of(house, run), *BOTH)
    await house.store.everyone.pool.execute(
        "UPDATE questions SET answers = '[]' WHERE conversation_id = $1", run.conversation_id
    )
    assert (await house.drive(run)).status == "completed"
    assert (await result_of(house, run))[0]["label"] == "tomorrow"
