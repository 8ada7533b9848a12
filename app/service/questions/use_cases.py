"""Questions of agents to people: read, answer, end without an answer (service.md 5).

An answer carries no authority, so a token suffices: the service signs what it was told, and by
whom. The first answer to a question stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.log.approvals import QuestionAnswered
from app.log.envelope import NewEvent
from app.policy.taint import Trust, tag_of_answer
from app.service import refusals
from app.service.reach import may_answer, visible_question
from app.service.refusals import FieldFault, NotFound, RequestInvalid
from app.trust.answer import AnswerStatement, SignedAnswer
from app.trust.statement import StatementKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from app.log.queries import Page
    from app.log.records import ConversationRecord, QuestionRecord
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Database, Session, Transaction
    from app.service.requests import GivenAnswer
    from app.service.statements import Statements


class Questions:
    """The use cases of the question resource."""

    def __init__(self, *, database: Database, clock: Clock, statements: Statements) -> None:
        self._database = database
        self._clock = clock
        self._statements = statements

    async def read(self, session: Session, caller: Caller, question_id: str) -> QuestionRecord:
        """The questions of one call."""
        return await visible_question(session, caller, question_id)

    async def page(
        self, session: Session, caller: Caller, page: Page, filters: Mapping[str, str]
    ) -> list[QuestionRecord]:
        """A page of the questions within the caller's reach, newest first."""
        return await session.questions(caller.reach, page, filters=filters)

    async def answer(
        self, tx: Transaction, caller: Caller, question_id: str, given: Sequence[GivenAnswer]
    ) -> QuestionRecord:
        """Take answers to some or all questions of a call; the last one lets its run go on."""
        seen = await visible_question(tx, caller, question_id)
        conversation = await tx.lock(seen.conversation_id)
        question = await _known(tx, question_id)
        if conversation is None or not may_answer(caller, question):
            raise refusals.DecisionApprover("only the run's principal and approvers may answer")
        _require_pending(question, now=self._clock.now())
        answers = _signed_answers(question, given)
        statement = AnswerStatement(
            **_subject(question),
            outcome="answered",
            answers=answers,
            answered_by=caller.principal,
            is_principals_own=_is_principals_own(caller, question, conversation),
        )
        await self._settle(tx, question, statement)
        return await _known(tx, question_id)

    async def expire(self, tenant: str, question_id: str) -> None:
        """Resolve what nobody answered in time; the model is told so and goes on."""
        async with self._database.transaction(tenant) as tx:
            seen = await tx.question(question_id)
            if seen is None or await tx.lock(seen.conversation_id) is None:
                return
            question = await _known(tx, question_id)
            if question.status != "pending" or not _is_overdue(question, self._clock.now()):
                return
            statement = AnswerStatement(
                **_subject(question),
                outcome="auto_resolved",
                answers=[],
                answered_by=None,
                is_principals_own=False,
            )
            await self._settle(tx, question, statement)

    async def _settle(
        self, tx: Transaction, question: QuestionRecord, statement: AnswerStatement
    ) -> None:
        """Append what was told, signed; if nothing else is pending, the run is queued and woken."""
        answered = QuestionAnswered(
            question_id=question.id,
            call_id=question.call_id,
            answers=tuple(statement.told()),
            outcome=statement.outcome,
            answered_by=statement.answered_by,
        )
        signed = self._statements.sign(StatementKind.QUESTION_ANSWER, statement.members())
        event = NewEvent(
            answered, run_id=question.run_id, trust=_trust(statement), private=signed.encode()
        )
        await tx.append(question.conversation_id, [event], now=self._clock.now())
        run = await tx.run(question.run_id)
        if run is not None and run.status == "queued":
            await tx.wake(question.conversation_id)


def _subject(question: QuestionRecord) -> dict[str, Any]:
    """What every statement about the question is bound to."""
    return {
        "tenant": question.tenant,
        "conversation_id": question.conversation_id,
        "run_id": question.run_id,
        "turn_id": question.turn_id,
        "call_id": question.call_id,
        "question_id": question.id,
        "args_sha256": question.args_sha256,
    }


def _is_principals_own(
    caller: Caller, question: QuestionRecord, conversation: ConversationRecord
) -> bool:
    """Whether the words of an answer are trusted: of the run's principal, and in their own talk."""
    return caller.principal == question.principal == conversation.principal


def _trust(statement: AnswerStatement) -> Trust:
    if statement.outcome == "auto_resolved":
        return Trust.UNSPECIFIED
    has_own_words = any(answer.text is not None for answer in statement.answers)
    return tag_of_answer(has_own_words=has_own_words, is_principals_own=statement.is_principals_own)


def _is_overdue(question: QuestionRecord, now: datetime) -> bool:
    return question.expires_at is not None and question.expires_at <= now


def _require_pending(question: QuestionRecord, *, now: datetime) -> None:
    """An answer past the time is refused even before the sweep has marked it."""
    if question.status != "pending":
        raise refusals.QuestionAnswered(f"question {question.id!r} is {question.status}")
    if _is_overdue(question, now):
        raise refusals.QuestionAnswered(f"question {question.id!r} is past its time")


def _signed_answers(question: QuestionRecord, given: Sequence[GivenAnswer]) -> list[SignedAnswer]:
    """The answers, each to a question that is there, once, and by an option that is there."""
    asked = {one["index"]: one for one in question.card["questions"]}
    faults: list[FieldFault] = []
    found: dict[int, SignedAnswer] = {}
    for at, answer in enumerate(given):
        if answer.index in found:
            faults.append(FieldFault(f"/answers/{at}/index", "is answered twice"))
        elif answer.index not in asked:
            faults.append(FieldFault(f"/answers/{at}/index", "is no question of this call"))
        elif (signed := _signed_answer(asked[answer.index], answer)) is None:
            faults.append(FieldFault(f"/answers/{at}/option", "is no option of the question"))
        else:
            found[answer.index] = signed
    if faults:
        raise RequestInvalid("the answers do not fit the questions", faults=tuple(faults))
    answered = {answer["index"] for answer in question.answers}
    if taken := sorted(answered & found.keys()):
        raise refusals.QuestionAnswered(f"question {question.id!r} has an answer to {taken}")
    return list(found.values())


def _signed_answer(asked: Mapping[str, Any], answer: GivenAnswer) -> SignedAnswer | None:
    """The label stands beside the option, so that it is known when the question is not any more."""
    if answer.declined:
        return SignedAnswer(index=answer.index, declined=True)
    if answer.text is not None:
        return SignedAnswer(index=answer.index, text=answer.text)
    options = asked["options"]
    if answer.option is None or not 0 <= answer.option < len(options):
        return None
    label = options[answer.option]["label"]
    return SignedAnswer(index=answer.index, option=answer.option, label=label)


async def _known(session: Session, question_id: str) -> QuestionRecord:
    question = await session.question(question_id)
    if question is None:
        raise NotFound("question")
    return question
