"""Tables of remembered grants: folded from the tenant's own log, and from those that used one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Index
from sqlalchemy import text as sql
from sqlmodel import SQLModel

from app.store.schema.base import document, not_empty, number, octets, text, texts, time


class GrantRow(SQLModel, table=True):
    """A grant; `conversation_id` is the tenant's own log, `evidence` the exact signed bytes."""

    __tablename__: ClassVar[str] = "grants"
    __table_args__ = (not_empty(), Index(None, "tenant", "principal", sql("id DESC")))

    id: str = text(key=True)
    tenant: str = text()
    conversation_id: str = text()
    principal: str = text()
    agent: str = text()
    tool: str = text()
    tool_definition_digest: str = text()
    capabilities: list[str] = texts()
    constraints: list[Any] = document()
    coverage_hash: str = text()
    passkey_id: str = text()
    evidence: bytes = octets()
    enrolled_at: datetime = time()
    expires_at: datetime = time()
    revoked_at: datetime | None = time(null=True)
    suspended_at: datetime | None = time(null=True)


class GrantUseRow(SQLModel, table=True):
    """A call that a grant let run: the place of its `grant.replayed`."""

    __tablename__: ClassVar[str] = "grant_uses"
    __table_args__ = (Index(None, "tenant", "grant_id", "at"),)

    tenant: str = text()
    conversation_id: str = text(key=True)
    seq: int = number(key=True)
    grant_id: str = text()
    run_id: str = text()
    call_id: str = text()
    at: datetime = time()
