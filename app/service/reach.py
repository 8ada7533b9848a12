"""Who may see what (service.md 2). Out of reach and missing are the same answer: NotFound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.service.refusals import NotFound

if TYPE_CHECKING:
    from app.log.records import (
        ApprovalRecord,
        ConversationRecord,
        DecisionClaims,
        LockedApproval,
        QuestionRecord,
        RunRecord,
    )
    from app.service.caller import Caller
    from app.service.ports.database import Session, Transaction


def takes_part(caller: Caller, conversation: ConversationRecord) -> bool:
    """Whether the caller is the conversation's principal or a participant."""
    return is_part_of(caller.principal, conversation)


def is_part_of(principal: str, conversation: ConversationRecord) -> bool:
    """Whether somebody is the conversation's principal or a participant."""
    return principal in {conversation.principal, *conversation.participants}


def may_decide(caller: Caller, approval: ApprovalRecord) -> bool:
    """Whether the agent's policy lets the caller decide: as the run's principal, by role, by name.

    `allow_self` binds the principal alone, and an approver's role does not lift it.
    """
    required = approval.card["required"]
    if caller.principal == approval.principal:
        return bool(required["allow_self"])
    return _has_roles(caller, approval) or decides_as_program(caller, approval)


def decides_as_program(caller: Caller, approval: ApprovalRecord) -> bool:
    """Whether the caller is one of the agent's reviewer programs and has no role beside that."""
    return caller.principal in approval.programs and not _has_roles(caller, approval)


def _has_roles(caller: Caller, approval: ApprovalRecord) -> bool:
    """Whether the caller has a role that counts, and one of each agent for a worker's call."""
    required = approval.card["required"]
    also = required.get("also_roles")
    return not caller.roles.isdisjoint(required["roles"]) and (
        also is None or not caller.roles.isdisjoint(also)
    )


def may_answer(caller: Caller, question: QuestionRecord) -> bool:
    """Whether the caller is the run's principal, or one of the agent's approvers.

    An answer is no consent, so `allow_self` does not keep the principal from it.
    """
    return (
        caller.principal == question.principal
        or not caller.roles.isdisjoint(question.roles)
        or caller.principal in question.programs
    )


async def visible_conversation(
    session: Session, caller: Caller, conversation_id: str
) -> ConversationRecord:
    """The conversation, for its people and for admins."""
    conversation = await session.conversation(conversation_id)
    if conversation is None:
        raise NotFound("conversation")
    if not (caller.is_admin or takes_part(caller, conversation)):
        raise NotFound("conversation")
    return conversation


async def visible_run(session: Session, caller: Caller, run_id: str) -> RunRecord:
    """The run, for its conversation's people, for admins, and for who may decide in it."""
    run, _ = await visible_run_and_conversation(session, caller, run_id)
    return run


async def visible_run_and_conversation(
    session: Session, caller: Caller, run_id: str
) -> tuple[RunRecord, ConversationRecord]:
    """The run, for whom it is visible, and the conversation it belongs to, which need not be."""
    found = await session.run_and_conversation(run_id)
    if found is None:
        raise NotFound("run")
    run, conversation = found
    if caller.is_admin or takes_part(caller, conversation):
        return run, conversation
    if any(may_decide(caller, asked) for asked in await session.run_approvals(run_id)):
        return run, conversation
    raise NotFound("run")


async def visible_approval(session: Session, caller: Caller, approval_id: str) -> ApprovalRecord:
    """The approval, for who may decide it, for its conversation's people, and for admins."""
    approval = await session.approval(approval_id)
    if approval is None:
        raise NotFound("approval")
    if caller.is_admin or may_decide(caller, approval):
        return approval
    conversation = await session.conversation(approval.conversation_id)
    if conversation is None or not takes_part(caller, conversation):
        raise NotFound("approval")
    return approval


async def locked_approval(
    tx: Transaction, caller: Caller, approval_id: str, claims: DecisionClaims | None = None
) -> LockedApproval:
    """The approval, if it is visible, locked, with the key, passkey and nonce claimed."""
    locked = await tx.lock_approval(approval_id, claims)
    if locked is None:
        raise NotFound("approval")
    if caller.is_admin or may_decide(caller, locked.approval):
        return locked
    if not takes_part(caller, locked.conversation):
        raise NotFound("approval")
    return locked


async def visible_question(session: Session, caller: Caller, question_id: str) -> QuestionRecord:
    """The question, for who may answer it, for its conversation's people, and for admins."""
    question = await session.question(question_id)
    if question is None:
        raise NotFound("question")
    if caller.is_admin or may_answer(caller, question):
        return question
    conversation = await session.conversation(question.conversation_id)
    if conversation is None or not takes_part(caller, conversation):
        raise NotFound("question")
    return question
