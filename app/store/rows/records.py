"""From rows to the records that the rest of the house reads."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import orjson

from app.log.envelope import Event
from app.log.payload import UsageTotals
from app.log.records import (
    AgentRecord,
    ApprovalRecord,
    ConsentRecords,
    ConversationRecord,
    DecisionRecord,
    KeyRecord,
    LockedApproval,
    PendingApprovalItem,
    PendingQuestionItem,
    QuestionRecord,
    RunRecord,
    SessionApprovalRecord,
)
from app.policy.taint import Trust
from app.store.keys import passkeys
from app.store.projections.kinds import USAGE
from app.store.texts import unescape, unescape_if_any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import asyncpg


def _texts(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(unescape(text) for text in texts)


def conversation(row: asyncpg.Record, prefix: str = "") -> ConversationRecord:
    """A row of conversations with `active_run_id`, or columns of one under a prefix."""
    return ConversationRecord(
        id=row[f"{prefix}id"],
        tenant=unescape(row[f"{prefix}tenant"]),
        principal=unescape(row[f"{prefix}principal"]),
        participants=_texts(row[f"{prefix}participants"]),
        title=unescape_if_any(row[f"{prefix}title"]),
        metadata=orjson.loads(row[f"{prefix}metadata"]),
        head_seq=row[f"{prefix}head_seq"],
        tainted=row[f"{prefix}tainted"],
        active_run_id=row[f"{prefix}active_run_id"],
        created_at=row[f"{prefix}created_at"],
    )


def run(
    row: asyncpg.Record,
    approvals: Iterable[asyncpg.Record] = (),
    questions: Iterable[asyncpg.Record] = (),
) -> RunRecord:
    """A row of runs with `run_head_seq`, and the pending rows of its pause."""
    return RunRecord(
        id=row["id"],
        tenant=unescape(row["tenant"]),
        conversation_id=row["conversation_id"],
        agent=unescape(row["agent"]),
        agent_digest=row["agent_digest"],
        principal=unescape(row["principal"]),
        status=row["status"],
        answer=None if row["answer"] is None else orjson.loads(row["answer"]),
        error=None if row["error"] is None else orjson.loads(row["error"]),
        usage=UsageTotals(**{name: row[name] for name in USAGE}),
        steps=row["steps"],
        tainted=row["tainted"],
        unattended=row["unattended"],
        max_steps=row["max_steps"],
        attempts=row["attempts"],
        head_seq=row["run_head_seq"],
        created_seq=row["created_seq"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        metadata=orjson.loads(row["metadata"]),
        pending_approvals=tuple(
            PendingApprovalItem(
                id=item["id"],
                call_id=unescape(item["call_id"]),
                tool=unescape(item["tool"]),
                title=unescape(item["title"]),
                reason=unescape(item["reason"]),
                expires_at=item["expires_at"],
            )
            for item in approvals
        ),
        pending_questions=tuple(
            PendingQuestionItem(item["id"], unescape(item["call_id"]), item["expires_at"])
            for item in questions
        ),
    )


def _decision(row: asyncpg.Record) -> DecisionRecord:
    return DecisionRecord(
        approval_id=row["id"],
        decision=row["d_decision"],
        approver=unescape(row["d_approver"]),
        caller=unescape(row["d_caller"]),
        assurance=row["d_assurance"],
        key_id=unescape(row["d_key_id"]),
        scope=row["d_scope"],
        covered_capabilities=tuple(row["d_covered_capabilities"]),
        override_args=unescape_if_any(row["d_override_args"]),
        note=unescape_if_any(row["d_note"]),
        reason=unescape_if_any(row["d_reason"]),
        sandbox_mode=row["d_sandbox_mode"],
        payload_sha256=row["d_payload_sha256"],
        effective_args_sha256=row["d_effective_args_sha256"],
        signed=row["d_signed"],
        at=row["d_at"],
    )


def approvals(rows: Iterable[asyncpg.Record]) -> list[ApprovalRecord]:
    """Approvals of rows as `approval_queries` has them: one for each decision of each."""
    return [_approval(list(group)) for _, group in groupby(rows, lambda row: row["id"])]


def _approval(rows: Sequence[asyncpg.Record]) -> ApprovalRecord:
    row = rows[0]
    return ApprovalRecord(
        id=row["id"],
        tenant=unescape(row["tenant"]),
        conversation_id=row["conversation_id"],
        run_id=row["run_id"],
        call_id=unescape(row["call_id"]),
        principal=unescape(row["principal"]),
        status=row["status"],
        card=orjson.loads(row["card"]),
        requested_seq=row["requested_seq"],
        expires_at=row["expires_at"],
        resolved_at=row["resolved_at"],
        resolved_by=row["resolved_by"],
        superseded_by=row["superseded_by"],
        effective_args=unescape_if_any(row["effective_args"]),
        effective_args_sha256=row["effective_args_sha256"],
        refusals=row["refusals"],
        programs=tuple(unescape(program) for program in row["programs"]),
        decisions=tuple(_decision(item) for item in rows if item["d_approver"] is not None),
    )


def question(row: asyncpg.Record) -> QuestionRecord:
    """A row of questions."""
    return QuestionRecord(
        id=row["id"],
        tenant=unescape(row["tenant"]),
        conversation_id=row["conversation_id"],
        run_id=row["run_id"],
        call_id=unescape(row["call_id"]),
        principal=unescape(row["principal"]),
        status=row["status"],
        card=orjson.loads(row["card"]),
        expires_at=row["expires_at"],
        turn_id=unescape(row["turn_id"]),
        args_sha256=row["args_sha256"],
        roles=_texts(row["roles"]),
        programs=_texts(row["programs"]),
        answers=() if row["answers"] is None else tuple(orjson.loads(row["answers"])),
    )


def session_approval(row: asyncpg.Record, prefix: str = "") -> SessionApprovalRecord:
    """A row of session_approvals, or columns of one under a prefix."""
    return SessionApprovalRecord(
        conversation_id=row[f"{prefix}conversation_id"],
        principal=unescape(row[f"{prefix}principal"]),
        agent=unescape(row[f"{prefix}agent"]),
        tool=unescape(row[f"{prefix}tool"]),
        covered_capabilities=tuple(row[f"{prefix}covered_capabilities"]),
        tool_definition_digest=row[f"{prefix}tool_definition_digest"],
        approval_id=row[f"{prefix}approval_id"],
        at=row[f"{prefix}at"],
    )


def agent(row: asyncpg.Record) -> AgentRecord:
    """A row of agents."""
    return AgentRecord(
        tenant=unescape(row["tenant"]),
        name=row["name"],
        spec=orjson.loads(row["spec"]),
        digest=row["digest"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def present_agent(row: asyncpg.Record) -> AgentRecord:
    """The agent of a row of runs, joined to it as `present_…`."""
    return AgentRecord(
        tenant=unescape(row["tenant"]),
        name=row["agent"],
        spec=orjson.loads(row["present_spec"]),
        digest=row["present_digest"],
        created_at=row["present_created_at"],
        updated_at=row["present_updated_at"],
    )


def key(row: asyncpg.Record, prefix: str = "") -> KeyRecord:
    """A row of approver_keys, or columns of one under a prefix."""
    return KeyRecord(
        id=row[f"{prefix}id"],
        tenant=unescape(row[f"{prefix}tenant"]),
        principal=unescape(row[f"{prefix}principal"]),
        thumbprint=row[f"{prefix}thumbprint"],
        public_jwk=orjson.loads(row[f"{prefix}public_jwk"]),
        label=unescape(row[f"{prefix}label"]),
        created_at=row[f"{prefix}created_at"],
        revoked_at=row[f"{prefix}revoked_at"],
    )


def consents(rows: Sequence[asyncpg.Record], run_id: str) -> ConsentRecords:
    """The rows of `approval_queries.CONSENTS`, told apart."""
    standing = {
        row["id"]: session_approval(row, "s_") for row in rows if row["s_approval_id"] is not None
    }
    found = approvals(rows)
    return ConsentRecords(
        approvals=tuple(each for each in found if each.run_id == run_id),
        standing=tuple((standing[each.id], each) for each in found if each.id in standing),
        keys={row["k_id"]: key(row, "k_") for row in rows if row["k_id"] is not None},
        passkeys={
            row["p_id"]: passkeys.record(row, "p_") for row in rows if row["p_id"] is not None
        },
    )


def locked_approval(rows: Sequence[asyncpg.Record]) -> LockedApproval:
    """The rows of `approval_queries.LOCK_APPROVAL`."""
    row = rows[0]
    return LockedApproval(
        approval=_approval(rows),
        conversation=conversation(row, "c_"),
        key=None if row["k_id"] is None else key(row, "k_"),
        awaited=frozenset(row["awaited"]),
        passkey=None if row["p_id"] is None else passkeys.record(row, "p_"),
        nonce_of=row["nonce_of"],
    )


def event(row: asyncpg.Record) -> Event:
    """A row of events; `private` is NULL unless it was asked for."""
    return Event(
        conversation_id=row["conversation_id"],
        seq=row["seq"],
        run_id=unescape_if_any(row["run_id"]),
        turn_id=unescape_if_any(row["turn_id"]),
        step=row["step"],
        type=row["type"],
        trust=Trust.from_byte(row["trust"]),
        body=row["body"],
        private=row["private"],
    )
