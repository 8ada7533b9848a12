"""Tables of the log: conversations, events, and whom they belong to."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Index, SmallInteger
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

from app.store.schema.base import (
    NO_SEQUENCE,
    metadata,
    not_empty,
    number,
    octets,
    text,
    texts,
    time,
    truth,
)


class Tenant(SQLModel, table=True):
    """A tenant, from its first write."""

    __tablename__: ClassVar[str] = "tenants"
    __table_args__ = (not_empty(),)

    id: str = text(key=True)
    created_at: datetime = time()


class Principal(SQLModel, table=True):
    """A principal; its row is the lock under which its keys change."""

    __tablename__: ClassVar[str] = "principals"
    __table_args__ = (not_empty("tenant"), not_empty())

    tenant: str = text(key=True)
    id: str = text(key=True)
    created_at: datetime = time()


class Conversation(SQLModel, table=True):
    """A partition of the log, with its head and the lease to drive it.

    Its row lock orders all appends. Kind `audit` is the tenant's own log. Head and description are
    projections; the lease is not.
    """

    __tablename__: ClassVar[str] = "conversations"
    __table_args__ = (
        not_empty(),
        Index(None, "tenant", "principal", sql("id DESC")),
        Index(
            None,
            "participants",
            postgresql_using="gin",
            postgresql_where=sql("participants <> '{}'"),
        ),
    )

    id: str = text(key=True)
    tenant: str = text()
    kind: str = text()
    principal: str = text()
    participants: list[str] = texts()
    title: str | None = text(null=True)
    metadata_: dict[str, Any] = metadata()
    head_seq: int = number()
    head_hash: bytes = octets()
    sealed_seq: int = number(default=0)
    tainted: bool = truth()
    created_at: datetime = time()
    lease_owner: str | None = text(null=True)
    lease_until: datetime | None = time(null=True)
    lease_generation: int = number(default=0)


class EventRow(SQLModel, table=True):
    """An event. `body` is the truth, `data` a searchable copy. Never updated, never deleted."""

    __tablename__: ClassVar[str] = "events"
    __table_args__ = (
        not_empty("conversation_id"),
        Index(None, "run_id", "seq", postgresql_where=sql("run_id IS NOT NULL")),
        Index(
            "ix_events_checkpoints",
            "conversation_id",
            sql("seq DESC"),
            postgresql_where=sql("type = 'run.checkpointed'"),
        ),
        Index(
            "ix_events_compactions",
            "conversation_id",
            sql("seq DESC"),
            postgresql_where=sql("type = 'history.compacted'"),
        ),
        Index(
            "ix_events_history",
            "conversation_id",
            "seq",
            postgresql_where=sql("type <> ALL ('{text.delta,reasoning.delta}'::text[])"),
        ),
        Index(
            "ix_events_quarantined",
            "conversation_id",
            sql("seq DESC"),
            postgresql_where=sql("trust = 2"),
        ),
    )

    tenant: str = text()
    conversation_id: str = text(key=True)
    seq: int = number(key=True)
    run_id: str | None = text(null=True)
    turn_id: str | None = text(null=True)
    step: int | None = number(null=True)
    type: str = text()
    trust: int = Field(sa_type=SmallInteger, sa_column_kwargs=NO_SEQUENCE)
    at: datetime = time()
    data: dict[str, Any] = Field(sa_type=JSONB)
    body: bytes = octets()
    private: bytes | None = octets(null=True)
    prev_hash: bytes = octets()
    hash: bytes = octets()
