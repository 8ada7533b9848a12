"""The checks of a posted decision, in the order of service.md 5. Each has a refusal of its own.

What is checked is never what the request says of a call, but what the log says: the approval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.engine.json.arguments import Arguments, parse_arguments, sha256_hex
from app.log.envelope import wire_time
from app.log.records import DecisionClaims, KeyRecord, PasskeyRecord
from app.policy.capability import NEVER_GRANTED
from app.service.keys.assertions import passkey_of
from app.service.reach import decides_as_program, may_decide
from app.service.refusals import (
    ApprovalCancelled,
    ApprovalDecided,
    ApprovalExpired,
    ApprovalSuperseded,
    DecisionApprover,
    DecisionBinding,
    DecisionDuplicate,
    DecisionEdit,
    DecisionExpired,
    DecisionMalformed,
    DecisionReplayed,
    DecisionSignature,
    FieldFault,
)
from app.trust.decision import (
    ApprovalBinding,
    DecisionPayload,
    Malformed,
    ReadDecision,
    VerifiedDecision,
    binding_mismatch,
    lapse,
    read_decision,
    verdict_mismatch,
    verify_decision,
)
from app.trust.keys import read_public_jwk
from app.trust.passkey_decision import (
    AnyRead,
    ReadPasskeyDecision,
    read_passkey_decision,
    verify_passkey_decision,
)
from app.trust.refusal import Refused
from app.turn.forms.schema import off_schema
from app.turn.ports import DispatchDeny

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from app.log.records import ApprovalRecord, LockedApproval
    from app.service.caller import Caller
    from app.service.ports.database import Transaction
    from app.service.requests import Verdict
    from app.turn.ports import ToolExecutor

PROGRAM_REASON: Final = "decided by a program"


@dataclass(frozen=True, slots=True)
class Effective:
    """What an approved call would run: canonical text and digest, and whether it was edited."""

    canonical: str
    sha256: str
    edited: bool


def binding_of(approval: ApprovalRecord) -> ApprovalBinding:
    """What a decision on the approval must be about."""
    card = approval.card
    return ApprovalBinding(
        tenant=approval.tenant,
        approval_id=approval.id,
        run_id=approval.run_id,
        conversation_id=approval.conversation_id,
        turn_id=card["turn_id"],
        request_id=card["request_id"],
        tool=card["tool"],
        tool_definition_digest=card["tool_definition_digest"],
        args_sha256=card["args_sha256"],
        missing_capabilities=tuple(card["missing_capabilities"]),
        session_allowed=card["risk"]["session_allowed"],
        sandbox_escalation=card["risk"]["sandbox_escalation"],
    )


def read_proof(proof: object, verdict: Verdict) -> AnyRead | DecisionMalformed:
    """What was posted as a decision, or its refusal: both for whoever can see the approval.

    A compact JWS is text, what a passkey signed an object.
    """
    match proof:
        case str():
            read: AnyRead | Malformed = read_decision(proof)
        case dict():
            read = read_passkey_decision(proof)
        case _:
            read = Malformed("expected exactly one of `decision_jws` and `passkey`")
    if isinstance(read, Malformed):
        return _malformed(read)
    mismatch = verdict_mismatch(read.payload, verdict)
    return read if mismatch is None else _malformed(mismatch)


def claims_of(read: AnyRead) -> DecisionClaims:
    """What the decision says of itself, for its approval to be locked with."""
    key_id = read.kid if isinstance(read, ReadDecision) else None
    passkey = read.proof.thumbprint if isinstance(read, ReadPasskeyDecision) else None
    return DecisionClaims(key_id, passkey, read.payload.nonce, sha256_hex(read.payload_bytes))


def verified(
    caller: Caller, read: AnyRead, locked: LockedApproval, *, origins: Collection[str]
) -> VerifiedDecision:
    """The decision, signed by its approver or the caller with an active key or passkey.

    A caller who signs in another's name has signed, and is refused as approver afterwards.
    """
    owners = (read.payload.approver, caller.principal)
    key = locked.passkey if isinstance(read, ReadPasskeyDecision) else locked.key
    if key is None or key.revoked_at is not None or key.principal not in owners:
        raise DecisionSignature("the decision is not signed by an active key of its approver")
    signed = verified_under(key, read, origins=origins)
    if signed is None:
        raise DecisionSignature("the decision is not signed by an active key of its approver")
    return signed


def verified_under(
    key: KeyRecord | PasskeyRecord, read: AnyRead, *, origins: Collection[str] | None = None
) -> VerifiedDecision | None:
    """The decision, if the registered key signed it. Whose key that must be is the caller's.

    Without `origins` a passkey may have been asked by any page of its relying party.
    """
    match key, read:
        case KeyRecord(), ReadDecision():
            public = read_public_jwk(key.public_jwk)
            signed = public if isinstance(public, Refused) else verify_decision(read, key=public)
        case PasskeyRecord(), ReadPasskeyDecision():
            signed = verify_passkey_decision(
                read, passkey=passkey_of(key), key_id=key.id, origins=origins
            )
        case _:
            return None
    return None if isinstance(signed, Refused) else signed


async def check_counter(
    tx: Transaction, locked: LockedApproval, read: AnyRead, signed: VerifiedDecision
) -> None:
    """Refuse a passkey whose counter stands still; bytes stored already pass."""
    if not isinstance(read, ReadPasskeyDecision) or _is_stored(locked.approval, signed):
        return
    if not await tx.count_passkey(signed.kid, read.proof.sign_count):
        raise DecisionSignature("the passkey's counter does not advance: it may be a copy")


def check_binding(approval: ApprovalRecord, payload: DecisionPayload) -> None:
    """Refuse a decision about another call, or one that this call does not allow."""
    if pointer := binding_mismatch(payload, binding_of(approval)):
        detail = "is not what the approval has or allows"
        raise DecisionBinding(f"{pointer} {detail}", faults=_faults(pointer, detail))


def check_time_and_nonce(
    locked: LockedApproval, signed: VerifiedDecision, *, now: datetime
) -> None:
    """Refuse a lapsed payload and a nonce of another; bytes stored already pass."""
    if _is_stored(locked.approval, signed):
        return
    if late := lapse(signed.payload, now=int(now.timestamp())):
        raise DecisionExpired(late)
    if locked.nonce_of != sha256_hex(signed.payload_bytes):
        detail = "was used by another decision"
        raise DecisionReplayed(f"the nonce {detail}", faults=_faults("/nonce", detail))


def check_approver(caller: Caller, approval: ApprovalRecord, signed: VerifiedDecision) -> None:
    """Refuse whoever may not decide this, or not so weakly bound."""
    payload = signed.payload
    if payload.approver != caller.principal:
        detail = "is not the caller"
        raise DecisionApprover(f"the approver {detail}", faults=_faults("/approver", detail))
    if not may_decide(caller, approval):
        raise DecisionApprover("the agent's policy does not let the caller decide this")
    if approval.card["required"]["assurance"] == "passkey" != signed.assurance:
        raise DecisionApprover("this approval needs a passkey, a key is too weak")
    if decides_as_program(caller, approval):
        if payload.reason != PROGRAM_REASON:
            detail = f"must be {PROGRAM_REASON!r} for a program"
            raise DecisionApprover(f"the reason {detail}", faults=_faults("/reason", detail))
        if NEVER_GRANTED.intersection(approval.card["missing_capabilities"]):
            raise DecisionApprover("this approval needs a person")


def effective_of(approval: ApprovalRecord, override: str | None) -> Effective:
    """The arguments that a decision lets run; an edit equal to the proposal is none."""
    card = approval.card
    if override is None or override == card["args_canonical"]:
        return Effective(card["args_canonical"], card["args_sha256"], edited=False)
    return Effective(override, sha256_hex(override.encode()), edited=True)


def already_decided(
    approval: ApprovalRecord, payload: DecisionPayload, effective: Effective, *, now: datetime
) -> bool:
    """Whether the same was decided before; False while open. Raises what stands in the way."""
    match approval.status:
        case "pending":
            return _decided_by_same(approval, payload, effective, now=now)
        case "superseded":
            by = approval.superseded_by
            raise ApprovalSuperseded(f"{by!r} took its place", members={"superseded_by": by})
        case "cancelled":
            raise ApprovalCancelled("the run ended before the answer")
        case "expired":
            raise ApprovalExpired("the answer came after the approval's time")
        case "approved" | "denied":
            outcome = "approve" if approval.status == "approved" else "deny"
            if payload.decision == outcome and (
                outcome == "deny" or approval.effective_args_sha256 == effective.sha256
            ):
                return True
            raise ApprovalDecided(
                f"the approval was {approval.status} before",
                members={"decided": _decided(approval, outcome)},
            )


def _decided_by_same(
    approval: ApprovalRecord, payload: DecisionPayload, effective: Effective, *, now: datetime
) -> bool:
    if approval.expires_at is not None and approval.expires_at <= now:
        raise ApprovalExpired("the answer came after the approval's time")
    own = [one for one in approval.decisions if one.approver == payload.approver]
    if payload.decision == "deny" or not own:
        return False
    if any(one.effective_args_sha256 == effective.sha256 for one in own):
        return True
    raise DecisionDuplicate("this approver has decided already; another's answer is awaited")


async def check_edit(
    approval: ApprovalRecord, effective: Effective, executor: ToolExecutor
) -> None:
    """Refuse edited arguments that are malformed, off schema, or vetoed (turn.md 6.5)."""
    parsed = parse_arguments(effective.canonical)
    if not isinstance(parsed, Arguments):
        raise _edit(parsed.pointer, parsed.defect)
    tool = approval.card["tool"]
    spec = executor.spec(tool)
    if spec is None:
        raise _edit("", f"the tool {tool!r} is not there any more")
    if problems := off_schema(spec, parsed.value):
        raise _edit("", "; ".join(problems))
    verdict = await executor.pre_dispatch(tool, parsed.value)
    if isinstance(verdict, DispatchDeny):
        raise _edit("", verdict.reason)


def _is_stored(approval: ApprovalRecord, signed: VerifiedDecision) -> bool:
    return any(stored.signed == signed.evidence for stored in approval.decisions)


def _malformed(found: Malformed) -> DecisionMalformed:
    return DecisionMalformed(found.detail, faults=_faults(found.pointer, found.detail))


def _edit(pointer: str, detail: str) -> DecisionEdit:
    return DecisionEdit(
        f"the edited arguments do not hold: {detail}",
        faults=(FieldFault(f"/override_args{pointer}", detail),),
    )


def _decided(approval: ApprovalRecord, outcome: str) -> dict[str, object]:
    """What was decided, by whom, and when: the person whose decision settled it, if one did."""
    people = [one.approver for one in approval.decisions if one.decision == outcome]
    by = people[-1] if people else approval.resolved_by
    at = approval.resolved_at
    return {"decision": outcome, "by": by, "at": None if at is None else wire_time(at)}


def _faults(pointer: str | None, detail: str) -> tuple[FieldFault, ...]:
    return () if pointer is None else (FieldFault(pointer, detail),)
