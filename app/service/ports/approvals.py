"""What the service reads and locks of what people are asked: approvals, decisions, questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.log.queries import Page, Reach
    from app.log.records import (
        ApprovalRecord,
        ConsentRecords,
        DecisionClaims,
        LockedApproval,
        QuestionRecord,
        SessionApprovalRecord,
    )


class ApprovalReads(Protocol):
    """Reads of a tenant's approvals, and of the decisions about them."""

    async def approval(self, approval_id: str) -> ApprovalRecord | None: ...
    async def approvals(
        self, reach: Reach, page: Page, *, filters: Mapping[str, str]
    ) -> list[ApprovalRecord]: ...
    async def run_approvals(self, run_id: str) -> list[ApprovalRecord]: ...
    async def consent_records(self, conversation_id: str, run_id: str) -> ConsentRecords:
        """What people said about a run's calls, and about its conversation for good."""
        ...

    async def session_approvals(self, conversation_id: str) -> list[SessionApprovalRecord]: ...


class ApprovalWrites(Protocol):
    """The one way to a decision that counts."""

    async def lock_approval(
        self, approval_id: str, claims: DecisionClaims | None = None
    ) -> LockedApproval | None:
        """The approval under its conversation's lock, with the key, passkey and nonce claimed."""
        ...


class QuestionReads(Protocol):
    """Reads of a tenant's questions."""

    async def question(self, question_id: str) -> QuestionRecord | None: ...
    async def questions(
        self, reach: Reach, page: Page, *, filters: Mapping[str, str]
    ) -> list[QuestionRecord]: ...
    async def run_questions(self, run_id: str) -> list[QuestionRecord]: ...
