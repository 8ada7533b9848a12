"""Questions: read them, answer them. An answer needs a token and no signature."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from app.api.edge import Reading, Writing
from app.api.paging import Cursor, Limit, TextFilter, cut_page, page_of
from app.api.resources.question_documents import (
    AnswerQuestion,
    Question,
    QuestionList,
    question_document,
)
from app.api.routes import Routes
from app.log.approvals import QuestionStatus

routes = Routes(tags=["questions"])


@routes.read("/v1/questions", "list_questions", scope="runs:read")
async def list_questions(
    call: Reading,
    *,
    status: Annotated[QuestionStatus | None, Query()] = None,
    run_id: TextFilter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> QuestionList:
    """Questions in reach, newest first."""
    asked = {"status": status, "run_id": run_id}
    filters = {name: value for name, value in asked.items() if value is not None}
    page = page_of(limit, cursor)
    found = await call.edge.questions.page(call.session, call.caller, page, filters)
    shown, more = cut_page(found, limit, lambda question: question.id)
    return QuestionList(items=[question_document(one) for one in shown], next_cursor=more)


@routes.read("/v1/questions/{question_id}", "get_question", scope="runs:read")
async def get_question(call: Reading, question_id: str) -> Question:
    """The questions of one call."""
    return question_document(await call.edge.questions.read(call.session, call.caller, question_id))


@routes.write(
    "POST",
    "/v1/questions/{question_id}/answer",
    "answer_question",
    scope="runs:write approvals:decide",
)
async def answer_question(call: Writing, question_id: str, body: AnswerQuestion) -> Question:
    """Answer some or all questions of a call; the last answer lets its run go on."""
    given = [answer.given() for answer in body.answers]
    return question_document(
        await call.edge.questions.answer(call.tx, call.caller, question_id, given)
    )
