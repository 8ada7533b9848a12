"""Tables of memory: the turns of sessions, and what became of them under each strategy."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import DateTime, Index, SmallInteger, Text, UniqueConstraint, func
from sqlalchemy import text as sql
from sqlmodel import Field, SQLModel

from app.store.schema.base import (
    NO_SEQUENCE,
    document,
    not_empty,
    number,
    octets,
    text,
    texts,
    time,
)


class MemoryTurn(SQLModel, table=True):
    """A finished exchange. Its texts are bytes, for a lone surrogate is no text to Postgres.

    `embedded_by` is whose vector it has: nobody's yet where empty, NULL where nothing is to embed.
    """

    __tablename__: ClassVar[str] = "memory_turns"
    __table_args__ = (
        not_empty("turn_id"),
        UniqueConstraint("tenant", "turn_id"),
        Index(
            "ix_memory_turns_one_a_run",
            *("tenant", "principal", "conversation_id", "run_id"),
            unique=True,
            postgresql_where=sql("run_id <> ''"),
        ),
        Index(None, "created_at"),
        Index("ix_memory_turns_embedded", "tenant", "principal", "embedded_by", "conversation_id"),
    )

    tenant: str = text(key=True)
    principal: str = text(key=True)
    conversation_id: str = text(key=True)
    seq: int = number(key=True)
    turn_id: str = text()
    run_id: str = text()
    user_message: bytes = octets()
    assistant_response: bytes = octets()
    trust: int = Field(sa_type=SmallInteger, sa_column_kwargs=NO_SEQUENCE)
    digest: str = text()
    artifacts_shown: list[str] = texts()
    artifacts_hidden: list[str] = texts()
    at: datetime | None = time(null=True)
    created_at: datetime = Field(
        sa_type=DateTime(timezone=True), sa_column_kwargs={"server_default": func.now()}
    )
    embedded_by: str | None = Field(
        sa_type=Text, nullable=True, sa_column_kwargs={"server_default": ""}
    )


class MemoryStateRow(SQLModel, table=True):
    """How far a session's turns are folded; `claim` is who folds the oldest range just now.

    In the row of the strategy `none`, `forgotten_through` is the newest event of the log when the
    session's memory was deleted: what was not stored before that is not stored afterwards either.
    """

    __tablename__: ClassVar[str] = "memory_state"
    __table_args__ = (
        not_empty("strategy"),
        Index(
            "ix_memory_state_waiting", "updated_at", postgresql_where=sql("pending::text <> '[]'")
        ),
    )

    tenant: str = text(key=True)
    principal: str = text(key=True)
    conversation_id: str = text(key=True)
    strategy: str = text(key=True)
    model: str = text()
    summary: bytes = octets()
    summary_trust: int = Field(sa_type=SmallInteger, sa_column_kwargs=NO_SEQUENCE)
    folded_through: int = number()
    health: str = text()
    failures: int = number()
    pending: list[dict[str, Any]] = document()
    claim: str | None = text(null=True)
    claimed_at: datetime | None = time(null=True)
    forgotten_through: int = number(default=0)
    updated_at: datetime = Field(
        sa_type=DateTime(timezone=True), sa_column_kwargs={"server_default": func.now()}
    )
