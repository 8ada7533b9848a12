"""Remembered grants: their events in the tenant's own log, and how a stored one is read.

The private column keeps what makes the change more than the platform's word: of `grant.enrolled`
and `grant.revoked` the text that the principal's passkey signed, with the assertion; of
`grant.suspended` the service's signed statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from app.log.payload import Payload, Shape
from app.trust.grant import GrantConstraint

if TYPE_CHECKING:
    from datetime import datetime

    from app.log.records import PasskeyRecord
    from app.trust.grant import Coverage

GrantState = Literal["active", "revoked", "suspended", "expired"]


class GrantResource(Shape):
    """A grant as the log tells of it; `coverage_hash` is over everything that it covers."""

    id: str
    principal: str
    agent: str
    tool: str
    tool_definition_digest: str
    capabilities: tuple[str, ...]
    constraints: tuple[GrantConstraint, ...] = ()
    coverage_hash: str
    expires_at: str


class GrantEnrolled(Payload):
    """A principal granted something with a passkey; it serves from now on."""

    TYPE: ClassVar[str] = "grant.enrolled"

    resource: GrantResource
    by: str
    passkey_id: str


class GrantRevoked(Payload):
    """A principal took a grant back with a passkey."""

    TYPE: ClassVar[str] = "grant.revoked"

    resource: GrantResource
    by: str
    passkey_id: str


class GrantSuspended(Payload):
    """An administrator stopped a grant; it serves no more."""

    TYPE: ClassVar[str] = "grant.suspended"

    resource: GrantResource
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRecord:
    """A grant as stored; `passkey` is the one that signed it, as it is now.

    `coverage_hash` and `evidence` are what was signed: that the present coverage has that hash, and
    that the evidence holds, is for whoever lets the grant serve to see.
    """

    id: str
    coverage: Coverage
    coverage_hash: str
    passkey: PasskeyRecord
    enrolled_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    suspended_at: datetime | None
    evidence: bytes

    def state(self, at: datetime) -> GrantState:
        """What the grant is worth then; one whose passkey was revoked is revoked with it."""
        if self.revoked_at is not None or self.passkey.revoked_at is not None:
            return "revoked"
        if self.suspended_at is not None:
            return "suspended"
        return "active" if at < self.expires_at else "expired"


@dataclass(frozen=True, slots=True)
class GrantUse:
    """A call that ran without asking because of a grant."""

    conversation_id: str
    seq: int
    run_id: str
    call_id: str
    at: datetime
