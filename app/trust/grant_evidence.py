"""Whether the grants of a tenant's own log are what their principals signed, event by event.

Four rules: a grant covers what the passkey of its principal signed, and each signed text makes one
grant; it is revoked by that principal's passkey; it is suspended by the service's own statement;
and a passkey that the log has told to be revoked signs nothing any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from app.policy.constraints import Constraint
from app.trust.documents import match_model
from app.trust.grant import Coverage, GrantConstraint, verify_grant, verify_revocation
from app.trust.refusal import Refused
from app.trust.statement import StatementKind, verify_statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.trust.evidence import ApproverPasskey
    from app.trust.keys import P256Key
    from app.trust.passkey import Passkey


class _Facts(BaseModel):
    """The fields of an event's data that are looked at; the rest is the log's own business."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class _Resource(_Facts):
    id: str
    principal: str
    agent: str
    tool: str
    tool_definition_digest: str
    capabilities: list[str]
    constraints: list[GrantConstraint]
    coverage_hash: str
    expires_at: str


class _Signed(_Facts):
    resource: _Resource
    by: str
    passkey_id: str


class _Suspended(_Facts):
    resource: _Resource
    by: str


class _Registered(_Facts):
    id: str
    principal: str


class _PasskeyEvent(_Facts):
    resource: _Registered


class _Principal(_Facts):
    principal: str


class _Reset(_Facts):
    resource: _Principal


@dataclass(slots=True)
class GrantEvidence:
    """The sound grants of one log, in the order in which it tells them."""

    tenant: str
    passkeys: Mapping[str, ApproverPasskey]
    keys: Mapping[str, P256Key]
    """Public keys of the service, by their ids."""
    _grants: dict[str, Coverage] = field(default_factory=dict)
    _nonces: set[str] = field(default_factory=set)
    _registered: dict[str, str] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    def problem(self, kind: str, data: Mapping[str, Any], private: bytes | None) -> str | None:
        """What is wrong with an event of type `kind`, or None; sound ones are taken in."""
        match kind:
            case "grant.enrolled":
                return self._enrolled(match_model(_Signed, data), private or b"")
            case "grant.revoked":
                return self._revoked(match_model(_Signed, data), private or b"")
            case "grant.suspended":
                return self._suspended(match_model(_Suspended, data), private or b"")
            case "passkey.registered" | "passkey.revoked":
                return self._passkey_event(kind, match_model(_PasskeyEvent, data))
            case "keys.reset":
                return self._reset(match_model(_Reset, data))
            case _:
                return None

    def _passkey_event(self, kind: str, event: _PasskeyEvent | Refused) -> str | None:
        if isinstance(event, Refused):
            return event.reason
        passkey = event.resource
        if kind == "passkey.revoked":
            self._ended.add(passkey.id)
        else:
            self._registered[passkey.id] = passkey.principal
        return None

    def _reset(self, event: _Reset | Refused) -> str | None:
        """Those that are enrolled after a reset are good again."""
        if isinstance(event, Refused):
            return event.reason
        principal = event.resource.principal
        self._ended |= {key for key, owner in self._registered.items() if owner == principal}
        return None

    def _enrolled(self, event: _Signed | Refused, evidence: bytes) -> str | None:
        if isinstance(event, Refused):
            return event.reason
        passkey = self._passkey(event)
        if isinstance(passkey, str):
            return passkey
        try:
            coverage, expires_at = self._coverage(event.resource), _seconds(event.resource)
        except ValueError as error:
            return f"the grant cannot be: {error}"
        signed = verify_grant(evidence, passkey=passkey, coverage=coverage, expires_at=expires_at)
        if isinstance(signed, Refused):
            return signed.reason
        if coverage.sha256 != event.resource.coverage_hash:
            return "coverage_hash is not that of what was signed"
        if event.resource.id in self._grants or signed.nonce in self._nonces:
            return "this grant, or one with the same signed text, was enrolled before"
        self._grants[event.resource.id] = coverage
        self._nonces.add(signed.nonce)
        return None

    def _revoked(self, event: _Signed | Refused, evidence: bytes) -> str | None:
        if isinstance(event, Refused):
            return event.reason
        passkey, coverage = self._passkey(event), self._standing(event.resource)
        if isinstance(passkey, str):
            return passkey
        if isinstance(coverage, str):
            return coverage
        refused = verify_revocation(
            evidence, passkey=passkey, coverage=coverage, grant_id=event.resource.id
        )
        return refused.reason if refused else None

    def _suspended(self, event: _Suspended | Refused, evidence: bytes) -> str | None:
        if isinstance(event, Refused):
            return event.reason
        coverage = self._standing(event.resource)
        if isinstance(coverage, str):
            return coverage
        said = verify_statement(
            StatementKind.GRANT_SUSPENSION, evidence.decode(errors="replace"), keys=self.keys
        )
        if isinstance(said, Refused):
            return f"the suspension is not the service's: {said.reason}"
        told = {
            "tenant": self.tenant,
            "grant_id": event.resource.id,
            "coverage_hash": coverage.sha256,
            "by": event.by,
        }
        return None if said == told else "the event tells other than what was signed"

    def _passkey(self, event: _Signed) -> Passkey | str:
        known = self.passkeys.get(event.passkey_id)
        if known is None:
            return "the passkey that the event names is not in the export"
        if event.passkey_id in self._ended:
            return "the passkey was revoked before"
        if not event.by == event.resource.principal == known.principal:
            return "the passkey does not belong to the grant's principal"
        return known.passkey

    def _standing(self, resource: _Resource) -> Coverage | str:
        """What the grant was enrolled with; the event must say the same of it."""
        coverage = self._grants.get(resource.id)
        if coverage is None:
            return "no sound grant.enrolled for this grant stands before it"
        if coverage.sha256 != resource.coverage_hash:
            return "coverage_hash is not that of what was signed"
        return coverage

    def _coverage(self, resource: _Resource) -> Coverage:
        return Coverage(
            tenant=self.tenant,
            principal=resource.principal,
            agent=resource.agent,
            tool=resource.tool,
            tool_definition_digest=resource.tool_definition_digest,
            capabilities=tuple(resource.capabilities),
            constraints=tuple(
                Constraint(each.pointer, each.op, each.value) for each in resource.constraints
            ),
        )


def _seconds(resource: _Resource) -> int:
    return int(datetime.fromisoformat(resource.expires_at).timestamp())
