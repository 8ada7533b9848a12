"""What a log has asked and what people signed, held against each other event by event.

Three rules: a request shows the arguments whose digest it names; a decision is signed with a key of
its approver, by a passkey where its request asks for one, and bound to the request that stands
before it; nothing starts under a decision that is not about just this call with just these
arguments, nor under a session approval of another tool.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from app.engine.json.arguments import sha256_hex
from app.trust.decision import (
    ApprovalBinding,
    DecisionPayload,
    Malformed,
    ReadDecision,
    VerifiedDecision,
    binding_mismatch,
    verify_decision,
)
from app.trust.documents import match_model
from app.trust.passkey_decision import ReadPasskeyDecision, read_evidence, verify_passkey_decision
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.trust.keys import P256Key
    from app.trust.passkey import Passkey

_TOO_FEW: Final = "too few sound approvals of exactly these arguments stand before this start"


class _Facts(BaseModel):
    """The fields of an event's data that are looked at; the rest is the log's own business."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class _Risk(_Facts):
    session_allowed: bool
    sandbox_escalation: bool


class _Required(_Facts):
    count: int
    # A request that names none asks for no more than the weakest.
    assurance: Literal["channel", "key", "passkey"] = "channel"


class _Requested(_Facts):
    id: str
    run_id: str
    conversation_id: str
    turn_id: str
    request_id: str
    tool: str
    tool_definition_digest: str
    args_canonical: str
    args_sha256: str
    missing_capabilities: list[str]
    risk: _Risk
    required: _Required

    def binding(self, tenant: str) -> ApprovalBinding:
        """The call that decisions on this request must be about."""
        return ApprovalBinding(
            tenant=tenant,
            approval_id=self.id,
            run_id=self.run_id,
            conversation_id=self.conversation_id,
            turn_id=self.turn_id,
            request_id=self.request_id,
            tool=self.tool,
            tool_definition_digest=self.tool_definition_digest,
            args_sha256=self.args_sha256,
            missing_capabilities=tuple(self.missing_capabilities),
            session_allowed=self.risk.session_allowed,
            sandbox_escalation=self.risk.sandbox_escalation,
        )


class _Decided(_Facts):
    approval_id: str
    decision: str
    approver: str
    assurance: str
    key_id: str
    scope: str
    covered_capabilities: list[str]
    effective_args_sha256: str | None


class _CoveredBy(_Facts):
    kind: str
    id: str


class _Started(_Facts):
    request_id: str
    tool: str
    args_sha256: str
    covered_by: _CoveredBy | None


@dataclass(frozen=True, slots=True)
class ApproverKey:
    """A registered key, revoked or not, and the principal it belongs to."""

    key: P256Key
    principal: str


@dataclass(frozen=True, slots=True)
class ApproverPasskey:
    """A registered passkey, revoked or not, and the principal it belongs to."""

    passkey: Passkey
    principal: str


@dataclass(slots=True)
class _Approvals:
    """What was soundly said on one request: who approved which arguments in what scope."""

    scopes: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    is_denied: bool = False

    def take(self, payload: DecisionPayload, effective: str) -> None:
        """One denial decides; approvals add up for the same arguments alone (turn.md 6.6)."""
        if payload.decision == "approve":
            self.scopes[effective][payload.approver] = payload.scope
        else:
            self.is_denied = True

    def cover(self, args_sha256: str, *, count: int) -> bool:
        """Whether enough people have approved a call with these arguments."""
        return not self.is_denied and len(self.scopes[args_sha256]) >= count

    def last(self, *, count: int) -> bool:
        """Whether enough people have approved for the session, each of them."""
        return not self.is_denied and any(
            len(scopes) >= count and set(scopes.values()) == {"session"}
            for scopes in self.scopes.values()
        )


@dataclass(slots=True)
class Evidence:
    """The requests and sound approvals of one log, in the order in which it tells them."""

    tenant: str
    keys: Mapping[str, ApproverKey]
    passkeys: Mapping[str, ApproverPasskey] = field(default_factory=dict)
    decisions: int = 0
    _requests: dict[str, _Requested] = field(default_factory=dict)
    _approvals: defaultdict[str, _Approvals] = field(
        default_factory=lambda: defaultdict(_Approvals)
    )

    def problem(self, kind: str, data: Mapping[str, Any], private: bytes | None) -> str | None:
        """What is wrong with an event of type `kind`, or None; sound ones are taken in."""
        match kind:
            case "approval.requested":
                return self._requested(match_model(_Requested, data))
            case "approval.decided":
                self.decisions += 1
                return self._decided(match_model(_Decided, data), private)
            case "tool.started":
                return self._started(match_model(_Started, data))
            case _:
                return None

    def _requested(self, requested: _Requested | Refused) -> str | None:
        if isinstance(requested, Refused):
            return requested.reason
        if sha256_hex(requested.args_canonical.encode()) != requested.args_sha256:
            return "args_sha256 is not the digest of args_canonical"
        if requested.id in self._requests:
            return "this approval was requested before"
        self._requests[requested.id] = requested
        return None

    def _decided(self, decided: _Decided | Refused, private: bytes | None) -> str | None:
        if isinstance(decided, Refused):
            return decided.reason
        request = self._requests.get(decided.approval_id)
        if request is None:
            return "no sound approval.requested for this decision stands before it"
        payload = self._verified(decided, private, required=request.required)
        if isinstance(payload, str):
            return payload
        if pointer := binding_mismatch(payload, request.binding(self.tenant)):
            return f"the signed {pointer} is not that of approval.requested"
        effective = _effective_digest(payload)
        if _told(decided) != _signed(payload, effective):
            return "the event tells other than what was signed"
        self._approvals[payload.approval_id].take(payload, effective)
        return None

    def _verified(
        self, decided: _Decided, private: bytes | None, *, required: _Required
    ) -> DecisionPayload | str:
        read = read_evidence(private or b"")
        if isinstance(read, Malformed):
            return f"the signed bytes are no decision: {read.detail}"
        verified = (
            self._by_passkey(decided, read)
            if isinstance(read, ReadPasskeyDecision)
            else self._by_key(decided, read)
        )
        if isinstance(verified, Refused):
            return verified.reason
        if verified.assurance != decided.assurance:
            return f"assurance {decided.assurance!r} is not what the signed bytes give"
        # Whatever is verified here is signed by a key at least.
        if required.assurance == "passkey" != verified.assurance:
            return f"approval.requested asks for a passkey, and assurance is {verified.assurance!r}"
        return verified.payload

    def _by_key(self, decided: _Decided, read: ReadDecision) -> VerifiedDecision | Refused:
        known = self.keys.get(read.kid)
        if known is None or read.kid != decided.key_id:
            return Refused(
                "the key that the decision names is not in the export, or not the event's"
            )
        if not decided.approver == read.payload.approver == known.principal:
            return Refused("the key does not belong to the approver")
        return verify_decision(read, key=known.key)

    def _by_passkey(
        self, decided: _Decided, read: ReadPasskeyDecision
    ) -> VerifiedDecision | Refused:
        known = self.passkeys.get(decided.key_id)
        if known is None:
            return Refused("the passkey that the event names is not in the export")
        if not decided.approver == read.payload.approver == known.principal:
            return Refused("the passkey does not belong to the approver")
        return verify_passkey_decision(read, passkey=known.passkey, key_id=decided.key_id)

    def _started(self, started: _Started | Refused) -> str | None:
        if isinstance(started, Refused):
            return started.reason
        cover = started.covered_by
        # The grant of a start is told in the tenant's own log, which is another one.
        if cover is None or cover.kind == "grant":
            return None
        request, said = self._requests.get(cover.id), self._approvals[cover.id]
        if request is None:
            return _TOO_FEW
        count = request.required.count
        if cover.kind == "session":
            is_other, covers = request.tool != started.tool, said.last(count=count)
        else:
            told = (request.request_id, request.tool)
            is_other = told != (started.request_id, started.tool)
            covers = said.cover(started.args_sha256, count=count)
        if is_other:
            return "the approval that this start names is of another call"
        return None if covers else _TOO_FEW


def _told(decided: _Decided) -> tuple[object, ...]:
    approves = decided.decision == "approve"
    effective = decided.effective_args_sha256 if approves else None
    return (decided.decision, decided.scope, decided.covered_capabilities, effective)


def _signed(payload: DecisionPayload, effective: str) -> tuple[object, ...]:
    covered = list(payload.covered_capabilities)
    approves = payload.decision == "approve"
    return (payload.decision, payload.scope, covered, effective if approves else None)


def _effective_digest(payload: DecisionPayload) -> str:
    edit = payload.override_args
    return payload.args_sha256 if edit is None else sha256_hex(edit.encode())
