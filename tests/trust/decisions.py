"""One approval, and decisions about it as an approver's client makes them."""

from __future__ import annotations

from typing import Any

from app.trust.decision import ApprovalBinding, DecisionPayload, read_payload
from tests.trust.signer import Signer, compact

NOW = 1_800_000_000
KEY = Signer.of(7)
HEAD: dict[str, Any] = {"alg": "ES256", "kid": "key_1", "typ": "turngate-decision+jws"}

BINDING = ApprovalBinding(
    tenant="acme",
    approval_id="appr_1",
    run_id="run_1",
    conversation_id="conv_1",
    turn_id="turn_1",
    request_id="req_1",
    tool="http_post",
    tool_definition_digest="d" * 64,
    args_sha256="a" * 64,
    missing_capabilities=("mutate-external", "arbitrary-egress"),
    session_allowed=True,
    sandbox_escalation=True,
)

APPROVE: dict[str, Any] = {
    "v": 1,
    "typ": "turngate.decision",
    "tenant": "acme",
    "approval_id": "appr_1",
    "run_id": "run_1",
    "conversation_id": "conv_1",
    "turn_id": "turn_1",
    "request_id": "req_1",
    "tool": "http_post",
    "tool_definition_digest": "d" * 64,
    "args_sha256": "a" * 64,
    "decision": "approve",
    "override_args": None,
    "note": None,
    "reason": None,
    "scope": "once",
    "covered_capabilities": ["arbitrary-egress", "mutate-external"],
    "sandbox_mode": None,
    "approver": "alice",
    "nonce": "AAECAwQFBgcICQoLDA0ODw",
    "iat": NOW,
    "exp": NOW + 900,
}
DENY = APPROVE | {"decision": "deny", "covered_capabilities": []}


def signed(payload: bytes | dict[str, Any], *, key: Signer = KEY, **header: Any) -> str:
    """The `decision_jws` over `payload`."""
    data = payload if isinstance(payload, bytes) else compact(payload)
    return key.jws(HEAD | header, data)


def payload_of(fields: dict[str, Any]) -> DecisionPayload:
    """The payload that `fields` spell, which must be sound."""
    payload = read_payload(compact(fields))
    assert isinstance(payload, DecisionPayload), payload
    return payload
