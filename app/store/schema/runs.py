"""Tables folded from the log: runs and what hangs on them. Each equals its rebuild."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Index
from sqlalchemy import text as sql
from sqlmodel import SQLModel

from app.store.schema.base import (
    document,
    metadata,
    not_empty,
    number,
    octets,
    text,
    texts,
    time,
    truth,
)


class Run(SQLModel, table=True):
    """A run; `goes_next` is set for one that interrupted the run before it."""

    __tablename__: ClassVar[str] = "runs"
    __table_args__ = (
        not_empty(),
        Index(None, "conversation_id", "created_seq"),
        Index(None, "tenant", "principal", sql("id DESC")),
        Index(
            "ix_runs_open",
            "conversation_id",
            postgresql_where=sql("ended_at IS NULL"),
        ),
        Index(
            "ix_runs_open_of_principal",
            "tenant",
            "principal",
            postgresql_where=sql("ended_at IS NULL"),
        ),
    )

    id: str = text(key=True)
    tenant: str = text()
    conversation_id: str = text()
    agent: str = text()
    agent_digest: str = text()
    principal: str = text()
    status: str = text()
    answer: dict[str, Any] | None = document(null=True)
    error: dict[str, Any] | None = document(null=True)
    input_tokens: int = number(default=0)
    output_tokens: int = number(default=0)
    total_tokens: int = number(default=0)
    cached_input_tokens: int = number(default=0)
    cache_creation_input_tokens: int = number(default=0)
    tool_use_prompt_tokens: int = number(default=0)
    reasoning_tokens: int = number(default=0)
    steps: int = number(default=0)
    tainted: bool = truth()
    unattended: bool = truth()
    goes_next: bool = truth()
    max_steps: int | None = number(null=True)
    attempts: int = number(default=0)
    created_seq: int = number()
    created_at: datetime = time()
    started_at: datetime | None = time(null=True)
    ended_at: datetime | None = time(null=True)
    metadata_: dict[str, Any] = metadata()


class Approval(SQLModel, table=True):
    """An approval; `card` is the data of its `approval.requested`."""

    __tablename__: ClassVar[str] = "approvals"
    __table_args__ = (
        not_empty(),
        Index(None, "run_id"),
        Index(None, "tenant", sql("id DESC")),
        Index(
            "ix_approvals_expiring",
            "expires_at",
            postgresql_where=sql("status = 'pending'"),
        ),
    )

    id: str = text(key=True)
    tenant: str = text()
    conversation_id: str = text()
    run_id: str = text()
    call_id: str = text()
    principal: str = text()
    agent: str = text()
    tool: str = text()
    title: str = text()
    reason: str = text()
    roles: list[str] = texts()
    programs: list[str] = texts()
    status: str = text()
    card: dict[str, Any] = document()
    tool_definition_digest: str = text()
    args_canonical: str = text()
    args_sha256: str = text()
    requested_seq: int = number()
    expires_at: datetime | None = time(null=True)
    resolved_at: datetime | None = time(null=True)
    resolved_by: str | None = text(null=True)
    superseded_by: str | None = text(null=True)
    effective_args: str | None = text(null=True)
    effective_args_sha256: str | None = text(null=True)
    refusals: int = number(default=0)


class Decision(SQLModel, table=True):
    """A verified decision; `signed` holds the exact bytes."""

    __tablename__: ClassVar[str] = "decisions"
    __table_args__ = (not_empty("approval_id"), not_empty("approver"))

    tenant: str = text()
    approval_id: str = text(key=True)
    approver: str = text(key=True)
    decision: str = text(key=True)
    conversation_id: str = text()
    seq: int = number()
    caller: str = text()
    assurance: str = text()
    key_id: str = text()
    scope: str = text()
    covered_capabilities: list[str] = texts()
    override_args: str | None = text(null=True)
    note: str | None = text(null=True)
    reason: str | None = text(null=True)
    sandbox_mode: str | None = text(null=True)
    payload_sha256: str = text()
    effective_args_sha256: str | None = text(null=True)
    signed: bytes = octets()
    at: datetime = time()


class ToolExecution(SQLModel, table=True):
    """What is known of one call's execution; the key makes it at most one per (run, call)."""

    __tablename__: ClassVar[str] = "tool_executions"
    __table_args__ = (not_empty("run_id"), not_empty("call_id"))

    tenant: str = text()
    conversation_id: str = text()
    run_id: str = text(key=True)
    call_id: str = text(key=True)
    attempt: int = number()
    settled: bool = truth()


class Question(SQLModel, table=True):
    """The questions of one `ask_question` call; `card` is the data of its `question.asked`."""

    __tablename__: ClassVar[str] = "questions"
    __table_args__ = (
        not_empty(),
        Index(None, "run_id"),
        Index(None, "tenant", sql("id DESC")),
        Index(
            "ix_questions_expiring",
            "expires_at",
            postgresql_where=sql("status = 'pending'"),
        ),
    )

    id: str = text(key=True)
    tenant: str = text()
    conversation_id: str = text()
    run_id: str = text()
    call_id: str = text()
    status: str = text()
    card: dict[str, Any] = document()
    answers: list[Any] | None = document(null=True)
    asked_seq: int = number()
    asked_at: datetime = time()
    expires_at: datetime | None = time(null=True)
    principal: str = text()
    roles: list[str] = texts()
    programs: list[str] = texts()
    turn_id: str = text()
    args_sha256: str = text()


class SessionApproval(SQLModel, table=True):
    """A standing consent of one principal to one agent's tool, in one conversation."""

    __tablename__: ClassVar[str] = "session_approvals"

    tenant: str = text()
    conversation_id: str = text(key=True)
    principal: str = text(key=True)
    agent: str = text(key=True)
    tool: str = text(key=True)
    covered_capabilities: list[str] = texts()
    tool_definition_digest: str = text()
    approval_id: str = text()
    at: datetime = time()
