"""Tables that no event rebuilds: agents, keys, and what may happen only once."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import CheckConstraint, DateTime, Index, SmallInteger, UniqueConstraint, func
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlmodel import Field, SQLModel

from app.store.schema.base import (
    NO_SEQUENCE,
    document,
    not_empty,
    number,
    octets,
    text,
    time,
    truth,
)


class Agent(SQLModel, table=True):
    """An agent as saved."""

    __tablename__: ClassVar[str] = "agents"
    __table_args__ = (not_empty("name"),)

    tenant: str = text(key=True)
    name: str = text(key=True)
    spec: dict[str, Any] = document()
    digest: str = text()
    created_at: datetime = time()
    updated_at: datetime = time()


class ApproverKey(SQLModel, table=True):
    """A public key. A reset marks the keys before it: they no longer count as having been there."""

    __tablename__: ClassVar[str] = "approver_keys"
    __table_args__ = (
        not_empty(),
        UniqueConstraint("tenant", "thumbprint"),
        Index(None, "tenant", "principal", sql("id DESC")),
    )

    id: str = text(key=True)
    tenant: str = text()
    principal: str = text()
    thumbprint: str = text()
    public_jwk: dict[str, Any] = document()
    label: str = text()
    created_at: datetime = time()
    revoked_at: datetime | None = time(null=True)
    reset_at: datetime | None = time(null=True)


class PasskeyRow(SQLModel, table=True):
    """A passkey: its public key as COSE, and how often its authenticator says it was used."""

    __tablename__: ClassVar[str] = "passkeys"
    __table_args__ = (
        not_empty(),
        UniqueConstraint("tenant", "thumbprint"),
        Index(None, "tenant", "principal", sql("id DESC")),
    )

    id: str = text(key=True)
    tenant: str = text()
    principal: str = text()
    thumbprint: str = text()
    credential_id: bytes = octets()
    public_key: bytes = octets()
    rp_id: str = text()
    sign_count: int = number()
    label: str = text()
    created_at: datetime = time()
    revoked_at: datetime | None = time(null=True)
    reset_at: datetime | None = time(null=True)


class ServiceKey(SQLModel, table=True):
    """A public key of the service itself, of no tenant; `kid` is its thumbprint."""

    __tablename__: ClassVar[str] = "service_keys"
    __table_args__ = (not_empty("kid"),)

    kid: str = text(key=True)
    public_jwk: dict[str, Any] = document()
    created_at: datetime = time()


class IdempotencyKey(SQLModel, table=True):
    """A claimed key with the first answer; both are written in one transaction."""

    __tablename__: ClassVar[str] = "idempotency_keys"
    __table_args__ = (not_empty("key"), Index(None, "created_at"))

    tenant: str = text(key=True)
    principal: str = text(key=True)
    key: str = text(key=True)
    fingerprint: str = text()
    status: int | None = Field(
        sa_type=SmallInteger, nullable=True, sa_column_kwargs=NO_SEQUENCE, default=None
    )
    headers: dict[str, str] | None = document(null=True)
    body: bytes | None = octets(null=True)
    created_at: datetime = time()


class McpServer(SQLModel, table=True):
    """An MCP server, its secret headers, and the definitions of its tools that are pinned."""

    __tablename__: ClassVar[str] = "mcp_servers"
    __table_args__ = (not_empty("name"),)

    tenant: str = text(key=True)
    name: str = text(key=True)
    transport: str = text()
    url: str | None = text(null=True)
    command: str | None = text(null=True)
    headers: dict[str, str] = document()
    registered: bool = truth()
    profile: dict[str, dict[str, bool]] = document()
    tools: list[dict[str, Any]] = document()
    refused: list[str] = document()
    why_not: str | None = text(null=True)
    version: int = number()
    created_at: datetime = time()
    listed_at: datetime | None = time(null=True)
    digests_address: bool = truth()


class Nonce(SQLModel, table=True):
    """The nonce of a signed payload that used it; kept for longer than payloads hold."""

    __tablename__: ClassVar[str] = "nonces"
    __table_args__ = (not_empty("nonce"), Index(None, "used_at"))

    tenant: str = text(key=True)
    nonce: str = text(key=True)
    payload_sha256: str = text()
    used_at: datetime = Field(
        sa_type=DateTime(timezone=True), sa_column_kwargs={"server_default": func.now()}
    )


class Revocation(SQLModel, table=True):
    """Tokens that are refused: one by its `jti`, or a subject's issued before a time."""

    __tablename__: ClassVar[str] = "revocations"
    __table_args__ = (
        CheckConstraint("kind IN ('jti', 'sub')", name="kind"),
        not_empty("value"),
        Index(None, "at"),
    )

    tenant: str = text(key=True)
    kind: str = text(key=True)
    value: str = text(key=True)
    before: datetime | None = time(null=True)
    at: datetime = time()


class WorkspaceFileRow(SQLModel, table=True):
    """A file of a conversation's workspace."""

    __tablename__: ClassVar[str] = "workspace_files"
    __table_args__ = (not_empty("path"),)

    tenant: str = text()
    conversation_id: str = text(key=True)
    path: str = text(key=True)
    content: bytes = octets()
    trust: int = Field(sa_type=SmallInteger, sa_column_kwargs=NO_SEQUENCE)
    updated_at: datetime = time()


class Artifact(SQLModel, table=True):
    """A file of a conversation; `principal` is the conversation's.

    Its bytes are `content`; where that is null they lie `in_pieces`, or else in an object of its id
    in the bucket. `piece_digests` has the SHA-256 of each piece of `piece_bytes`, in their order.
    """

    __tablename__: ClassVar[str] = "artifacts"
    __table_args__ = (
        not_empty(),
        UniqueConstraint("tenant", "principal", "conversation_id", "namespace", "sha256"),
        Index(None, "tenant", "conversation_id", sql("id DESC")),
    )

    id: str = text(key=True)
    tenant: str = text()
    principal: str = text()
    conversation_id: str = text()
    namespace: str = text()
    sha256: str = text()
    mime: str = text()
    sniffed: str = text()
    size_bytes: int = number()
    filename: str | None = text(null=True)
    tool: str | None = text(null=True)
    run_id: str | None = text(null=True)
    stored_by: str = text()
    trust: int = Field(sa_type=SmallInteger, sa_column_kwargs=NO_SEQUENCE)
    created_at: datetime = time()
    content: bytes | None = octets(null=True)
    in_pieces: bool = truth()
    piece_bytes: int | None = number(null=True)
    piece_digests: bytes | None = octets(null=True)


class ArtifactPiece(SQLModel, table=True):
    """A piece of the bytes of an artifact, or of an upload, which has its id."""

    __tablename__: ClassVar[str] = "artifact_pieces"
    __table_args__ = (not_empty("key"),)

    tenant: str = text()
    key: str = text(key=True)
    position: int = number(key=True)
    content: bytes = octets()


class ArtifactLeftover(SQLModel, table=True):
    """Bytes that no artifact needs, and from when on they may be swept away.

    They are pieces, or else an object in the bucket.
    """

    __tablename__: ClassVar[str] = "artifact_leftovers"
    __table_args__ = (not_empty("key"), Index(None, "due_at"))

    tenant: str = text()
    key: str = text(key=True)
    in_pieces: bool = truth(key=True)
    due_at: datetime = time()


class SkillRow(SQLModel, table=True):
    """A revision of a skill, for good; `owner` is empty where it is everybody's."""

    __tablename__: ClassVar[str] = "skills"
    __table_args__ = (not_empty("name"), Index(None, "tenant", "revision"))

    tenant: str = text(key=True)
    owner: str = text(key=True)
    name: str = text(key=True)
    revision: int = number(key=True)
    conversation_id: str | None = text(null=True)
    is_deleted: bool = truth()
    origin: str = text()
    trust: int = Field(sa_type=SmallInteger, sa_column_kwargs=NO_SEQUENCE)
    digest: str = text()
    head: dict[str, Any] = document()
    body: dict[str, Any] = document()
    files: dict[str, str] = document()
    words: str = Field(sa_type=TSVECTOR)
    created_at: datetime = time()
    updated_at: datetime = time()


class StreamHold(SQLModel, table=True):
    """A subscriber in lock-step with a run, or one that was demoted and may not be for a while."""

    __tablename__: ClassVar[str] = "stream_holds"
    __table_args__ = (not_empty("run_id"), not_empty("holder"))

    tenant: str = text()
    run_id: str = text(key=True)
    holder: str = text(key=True)
    principal: str = text()
    window_events: int = number()
    acked_seq: int = number()
    renewed_at: datetime = time()
    demoted_at: datetime | None = time(null=True)
