"""What the service signs of answers to a question: what it was told, about which call, and by whom.

The statement names the call by its turn, its id and the digest of all its arguments, so an answer
is about exactly the questions that were shown, and about no other occurrence of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from app.trust.documents import match_model
from app.trust.statement import StatementKind, verify_statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.trust.keys import P256Key
    from app.trust.refusal import Refused


class _Signed(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class SignedAnswer(_Signed):
    """The answer to one question: an option with its label, a text, or the word to decide alone."""

    index: int
    option: int | None = None
    label: str | None = None
    text: str | None = None
    declined: bool = False


class AnswerStatement(_Signed):
    """Answers to questions of one call. Nobody gave what is `auto_resolved`, so it has none.

    `is_principals_own`: they are of the one whose words the conversation trusts.
    """

    v: Literal[1] = 1
    tenant: str
    conversation_id: str
    run_id: str
    turn_id: str
    call_id: str
    question_id: str
    args_sha256: str
    outcome: Literal["answered", "auto_resolved"]
    answers: list[SignedAnswer]
    answered_by: str | None
    is_principals_own: bool

    def members(self) -> dict[str, Any]:
        """What is signed; an answer has only the members it was given with."""
        return self.model_dump(mode="json") | {"answers": self.told()}

    def told(self) -> list[dict[str, Any]]:
        """The answers as the event tells them."""
        return [answer.model_dump(mode="json", exclude_unset=True) for answer in self.answers]


def match_answer(members: Mapping[str, Any]) -> AnswerStatement | Refused:
    """The statement that verified members make, or the first thing wrong with them."""
    return match_model(AnswerStatement, members)


def verify_answer(text: str, *, keys: Mapping[str, P256Key]) -> AnswerStatement | Refused:
    """The statement, if it is one about answers and signed with one of the service's keys."""
    members = verify_statement(StatementKind.QUESTION_ANSWER, text, keys=keys)
    return match_answer(members) if isinstance(members, dict) else members
