"""Questions of an agent to people, from the call to the answer and back (turn.md 7.2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from app.service.refusals import DecisionApprover, NotFound, QuestionAnswered, RequestInvalid
from app.service.requests import GivenAnswer
from tests.service.questions.questioning import (
    BOTH,
    TWO,
    asked,
    asks,
    option,
    question_of,
    result_of,
)

if TYPE_CHECKING:
    from app.log.records import QuestionRecord
    from app.service.refusals import Refusal
    from tests.support.service.house import House, Person

pytestmark = pytest.mark.postgres


async def test_a_call_with_questions_pauses_its_run(house: House) -> None:
    run = await asked(house)
    question = await question_of(house, run)
    assert run.status == "paused"
    assert [(one.id, one.call_id) for one in run.pending_questions] == [(question.id, "call_1_1_0")]
    (event,) = await house.data(run, "question.asked")
    assert event["questions"][0] == {
        "index": 0,
        "header": "When",
        "question": "When is it to go out?",
        "options": [
            {"label": "today", "consequence": "at once", "recommended": True},
            {"label": "tomorrow", "consequence": "it waits", "recommended": False},
        ],
        "answer": None,
    }
    assert event["expires_at"] is not None
    types = await house.types(run)
    assert types[-2:] == ["question.asked", "run.paused"]
    (paused,) = await house.data(run, "run.paused")
    assert paused == {"approvals": [], "questions": [question.id]}


async def test_answers_let_the_run_go_on_with_them(house: House) -> None:
    run = await asked(house)
    question = await question_of(house, run)
    alice = await house.person()
    answered = await alice.answer(question, *BOTH)
    assert answered.status == "answered"
    assert (await house.read(run)).status == "queued"
    done = await house.drive(run)
    assert (done.status, done.tainted) == ("completed", False)
    first, second = await result_of(house, run)
    assert (first["label"], second["outcome"]) == ("tomorrow", "declined")
    (resumed,) = await house.data(run, "run.resumed")
    assert resumed["questions"] == [question.id]
    (event,) = await house.data(run, "question.answered")
    assert event == {
        "question_id": question.id,
        "call_id": "call_1_1_0",
        "answers": [{"index": 0, "option": 1, "label": "tomorrow"}, {"index": 1, "declined": True}],
        "outcome": "answered",
        "answered_by": "alice",
    }
    assert done.answer is not None
    assert done.answer["tool_calls_seen"] == 0


async def test_t133_a_question_answered_in_part_goes_on_waiting(house: House) -> None:
    run = await asked(house)
    question = await question_of(house, run)
    alice = await house.person()
    still = await alice.answer(question, option(0, 0))
    assert (still.status, len(still.answers)) == ("pending", 1)
    assert (await house.read(run)).status == "paused"
    with pytest.raises(QuestionAnswered):
        await alice.answer(question, option(0, 1))
    await alice.answer(question, option(1, 2))
    await house.drive(run)
    assert [one["label"] for one in await result_of(house, run)] == ["today", "both"]


async def test_of_two_answers_at_once_one_wins(house: House, other_house: House) -> None:
    """In two processes: the other one is told, and nothing of it is in the log."""
    run = await asked(house, TWO[0])
    question = await question_of(house, run)
    alice, again = await house.person(), await other_house.person()
    outcomes = await asyncio.gather(
        alice.answer(question, option(0, 0)),
        again.answer(question, option(0, 1)),
        return_exceptions=True,
    )
    assert sorted(type(one).__name__ for one in outcomes) == ["QuestionAnswered", "QuestionRecord"]
    assert len(await house.data(run, "question.answered")) == 1
    assert (await house.drive(run)).status == "completed"


@pytest.mark.parametrize("first", ["question", "approval"])
async def test_the_last_pending_item_resumes_the_run_in_either_order(
    house: House, first: str
) -> None:
    run = await asked(house, TWO[0], more='call mutate {"to":"a"}\n')
    alice = await house.person()
    question, (approval,) = await question_of(house, run), await house.pending(run)
    if first == "question":
        await alice.answer(question, option(0, 0))
    else:
        await alice.approve(approval)
    assert (await house.read(run)).status == "paused"
    if first == "question":
        await alice.approve(approval)
    else:
        await alice.answer(question, option(0, 0))
    assert (await house.read(run)).status == "queued"
    assert (await house.drive(run)).status == "completed"
    assert house.tools.count("mutate") == 1
    (resumed,) = await house.data(run, "run.resumed")
    assert (resumed["approvals"], resumed["questions"]) == ([approval.id], [question.id])


async def test_nobody_in_time_resolves_it_and_the_model_is_told(house: House) -> None:
    run = await asked(house, question_ttl_s=60)
    question = await question_of(house, run)
    alice = await house.person()
    await alice.answer(question, option(1, 0))
    await house.clock.let_pass(59)
    await house.expiry().sweep()
    assert (await question_of(house, run)).status == "pending"
    await house.clock.let_pass(1)
    with pytest.raises(QuestionAnswered):
        await alice.answer(question, option(0, 0))
    await house.expiry().sweep()
    assert (await question_of(house, run)).status == "auto_resolved"
    assert (await house.drive(run)).status == "completed"
    first, second = await result_of(house, run)
    assert (first["outcome"], second["label"]) == ("auto_resolved", "Ann")
    event = (await house.data(run, "question.answered"))[-1]
    assert (event["outcome"], event["answers"], event["answered_by"]) == (
        "auto_resolved",
        [],
        None,
    )


async def test_a_question_without_a_ttl_never_expires(house: House) -> None:
    run = await asked(house, question_ttl_s=0)
    await house.clock.let_pass(10 * 366 * 24 * 3600)
    await house.expiry().sweep()
    question = await question_of(house, run)
    assert (question.status, question.expires_at) == ("pending", None)


async def test_a_cancelled_run_takes_its_questions_along(house: House) -> None:
    run = await asked(house)
    question = await question_of(house, run)
    alice = await house.person()
    await alice.cancel(run)
    assert (await question_of(house, run)).status == "cancelled"
    with pytest.raises(QuestionAnswered):
        await alice.answer(question, *BOTH)
    (event,) = await house.data(run, "question.answered")
    assert (event["outcome"], event["answers"]) == ("cancelled", [])
    (settled,) = await house.data(run, "tool.settled")
    assert settled["outcome"] == "cancelled"


async def refused(person: Person, question: QuestionRecord, *given: GivenAnswer) -> Refusal:
    with pytest.raises(RequestInvalid) as refusal:
        await person.answer(question, *given)
    return refusal.value


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ((option(2, 0),), "/answers/0/index"),
        ((option(0, 0), option(0, 1)), "/answers/1/index"),
        ((option(1, 0), option(0, 2)), "/answers/1/option"),
    ],
    ids=["no such question", "twice", "no such option"],
)
async def test_answers_that_do_not_fit_are_refused_with_their_place(
    house: House, given: tuple[GivenAnswer, ...], pointer: str
) -> None:
    run = await asked(house)
    question = await question_of(house, run)
    refusal = await refused(await house.person(), question, *given)
    assert [fault.pointer for fault in refusal.faults] == [pointer]
    assert (await question_of(house, run)).answers == ()


async def test_who_may_answer(house: House) -> None:
    """The principal and the agent's approvers; whoever else takes part may read it alone."""
    run = await asked(house, approvers={"roles": ["boss"], "allow_self": False})
    question = await question_of(house, run)
    await house.share(run, "carol")
    carol, bob = await house.person("carol"), await house.person("bob")
    boss, alice = await house.person("dora", "boss"), await house.person()
    with pytest.raises(NotFound):
        await bob.answer(question, *BOTH)
    with pytest.raises(DecisionApprover):
        await carol.answer(question, *BOTH)
    await boss.answer(question, option(0, 0))
    assert (await alice.answer(question, option(1, 0))).status == "answered"


async def test_a_reviewer_program_may_answer(house: House) -> None:
    run = await asked(house, TWO[0], approvers={"roles": [], "programs": ["robot"]})
    robot = await house.person("robot")
    assert (await robot.answer(await question_of(house, run), option(0, 0))).status == "answered"


@pytest.mark.parametrize(("who", "tainted"), [("alice", False), ("dora", True)])
async def test_the_words_of_anyone_but_the_principal_taint(
    house: House, who: str, tainted: bool
) -> None:
    """turn.md 5.5: free text of somebody else is quarantined, in the log and in the result."""
    run = await asked(house, TWO[0], approvers={"roles": ["boss"]})
    person = await house.person(who, "boss")
    await person.answer(await question_of(house, run), GivenAnswer(index=0, text="at noon"))
    done = await house.drive(run)
    assert (done.status, done.tainted) == ("completed", tainted)
    trusts = {event.type: event.trust.wire for event in await house.events(run)}
    expected = "quarantined_content" if tainted else "trusted_user"
    assert trusts["question.answered"] == trusts["tool.settled"] == expected
    assert (await result_of(house, run))[0]["text"] == "at noon"


@pytest.mark.parametrize("who", ["carol", "alice"])
async def test_in_anothers_conversation_nobody_s_words_are_the_principal_s(
    house: House, who: str
) -> None:
    """Fail closed: carol merely takes part, and alice's is the conversation but not the run."""
    run = await asked(house, TWO[0])
    alice = await house.person("alice", "approver")
    await alice.answer(await question_of(house, run), option(0, 0))
    await house.drive(run)
    await house.share(run, "carol")
    carol = await house.person("carol")
    hers = await carol.run(asks(TWO[0]), conversation_id=run.conversation_id)
    hers = await house.drive(hers)
    person = alice if who == "alice" else carol
    await person.answer(await question_of(house, hers), GivenAnswer(index=0, text="at noon"))
    answered = [one for one in await house.events(hers) if one.type == "question.answered"]
    assert [one.trust.wire for one in answered] == ["quarantined_content"]


async def test_another_process_resumes_with_the_answer(house: House, other_house: House) -> None:
    """A restart between answer and resume: everything comes from the log (F11)."""
    run = await asked(house)
    await (await house.person()).answer(await question_of(house, run), *BOTH)
    assert (await other_house.drive(run)).status == "completed"
    assert len(await house.data(run, "question.asked")) == 1


async def test_i5_a_bad_question_asks_nobody(house: House) -> None:
    run = await asked(house, TWO[0] | {"header": "x" * 13})
    assert run.status == "completed"
    assert await house.questions_of(run) == []
    (settled,) = await house.data(run, "tool.settled")
    assert settled["outcome"] == "invalid_arguments"


async def test_an_unattended_run_is_told_that_nobody_can_answer(house: House) -> None:
    alice = await house.person(scopes={"runs:write", "triggers:write"})
    await house.agent(tools=["ask_question"])
    run = await house.drive(await alice.run(asks(*TWO), unattended=True))
    assert run.status == "completed"
    (settled,) = await house.data(run, "tool.settled")
    assert "Nobody can answer" in settled["result"]
