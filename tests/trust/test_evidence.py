"""Requests, decisions and starts of a log, held against each other."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest

from app.trust.evidence import ApproverKey, ApproverPasskey, Evidence
from app.trust.passkey import Passkey
from tests.support.authenticator import RP_ID, UP, Authenticator
from tests.trust.decisions import DENY, KEY, signed
from tests.trust.logs import ARGS_SHA256, DECIDED, REQUESTED, SIGNED, STARTED
from tests.trust.signer import Signer, compact

BOB = Signer.of(8)
EDIT = '{"body":"{\\"n\\":1}","url":"http://127.0.0.1:9000/orders"}'
EDIT_SHA256 = sha256(EDIT.encode()).hexdigest()
OTHER_CALL = "the approval that this start names is of another call"
TOO_FEW = "too few sound approvals of exactly these arguments stand before this start"


def evidence() -> Evidence:
    keys = {"key_1": ApproverKey(KEY.public, "alice"), "key_2": ApproverKey(BOB.public, "bob")}
    return Evidence("acme", keys)


def asked(**changed: Any) -> Evidence:
    """Evidence that has seen the request."""
    log = evidence()
    assert log.problem("approval.requested", REQUESTED | changed, None) is None
    return log


def decide(log: Evidence, data: dict[str, Any], fields: dict[str, Any]) -> str | None:
    return log.problem("approval.decided", data, signed(fields).encode())


def test_a_request_a_decision_and_a_start_that_fit_are_sound() -> None:
    log = asked()
    assert decide(log, DECIDED, SIGNED) is None
    assert log.problem("tool.started", STARTED, None) is None
    assert log.decisions == 1


def test_an_edit_is_what_starts_and_the_proposal_no_longer_may() -> None:
    log = asked()
    edited = DECIDED | {"effective_args_sha256": EDIT_SHA256}
    assert decide(log, edited, SIGNED | {"override_args": EDIT}) is None
    assert log.problem("tool.started", STARTED | {"args_sha256": EDIT_SHA256}, None) is None
    assert log.problem("tool.started", STARTED, None) == TOO_FEW


def test_a_denial_is_sound_and_lets_nothing_start() -> None:
    log = asked()
    told = DECIDED | {
        "decision": "deny",
        "covered_capabilities": [],
        "effective_args_sha256": None,
    }
    assert decide(log, told, DENY | {"args_sha256": ARGS_SHA256}) is None
    assert log.problem("tool.started", STARTED, None) == TOO_FEW


def test_two_approvers_are_counted_where_two_are_needed() -> None:
    log = asked(required={"count": 2})
    assert decide(log, DECIDED, SIGNED) is None
    assert decide(log, DECIDED, SIGNED) is None
    assert log.problem("tool.started", STARTED, None) == TOO_FEW
    text = signed(SIGNED | {"approver": "bob"}, key=BOB, kid="key_2")
    told = DECIDED | {"approver": "bob", "key_id": "key_2"}
    assert log.problem("approval.decided", told, text.encode()) is None
    assert log.problem("tool.started", STARTED, None) is None


def test_starts_that_no_decision_covers_are_none_of_its_business() -> None:
    log = evidence()
    assert log.problem("tool.started", STARTED | {"covered_by": None}, None) is None
    granted = {"covered_by": {"kind": "grant", "id": "grant_1"}}
    assert log.problem("tool.started", STARTED | granted, None) is None
    assert log.problem("run.created", {}, None) is None


@pytest.mark.parametrize("other", [{"request_id": "req_2"}, {"tool": "files_delete"}], ids=str)
def test_a_decision_moved_to_another_call_is_found(other: dict[str, str]) -> None:
    log = asked()
    assert decide(log, DECIDED, SIGNED) is None
    assert log.problem("tool.started", STARTED | other, None) == OTHER_CALL


def test_a_start_after_a_denial_is_found_however_many_approve() -> None:
    log = asked()
    told = DECIDED | {
        "decision": "deny",
        "covered_capabilities": [],
        "effective_args_sha256": None,
    }
    assert decide(log, told, DENY | {"args_sha256": ARGS_SHA256}) is None
    assert decide(log, DECIDED, SIGNED) is None
    assert log.problem("tool.started", STARTED, None) == TOO_FEW


IN_SESSION = STARTED | {
    "request_id": "req_2",
    "args_sha256": EDIT_SHA256,
    "covered_by": {"kind": "session", "id": "appr_1"},
}
LASTING = {"scope": "session"}


def session_allowed(count: int = 1) -> Evidence:
    risk = REQUESTED["risk"] | {"session_allowed": True}
    return asked(risk=risk, required={"count": count})


def test_a_session_approval_lets_its_tool_start_with_any_arguments() -> None:
    log = session_allowed()
    assert log.problem("tool.started", IN_SESSION, None) == TOO_FEW
    assert decide(log, DECIDED | LASTING, SIGNED | LASTING) is None
    assert log.problem("tool.started", IN_SESSION, None) is None
    assert log.problem("tool.started", IN_SESSION | {"tool": "files_delete"}, None) == OTHER_CALL


def test_an_approval_for_once_is_none_for_the_session() -> None:
    log = session_allowed()
    assert decide(log, DECIDED, SIGNED) is None
    assert log.problem("tool.started", IN_SESSION, None) == TOO_FEW


def test_of_two_approvers_both_must_approve_for_the_session() -> None:
    log = session_allowed(count=2)
    assert decide(log, DECIDED | LASTING, SIGNED | LASTING) is None
    assert log.problem("tool.started", IN_SESSION, None) == TOO_FEW


def test_a_start_under_an_approval_that_was_never_requested_is_found() -> None:
    assert evidence().problem("tool.started", STARTED, None) == TOO_FEW


def test_a_request_that_shows_other_arguments_than_its_digest_is_found() -> None:
    problem = evidence().problem("approval.requested", REQUESTED | {"args_canonical": EDIT}, None)
    assert problem == "args_sha256 is not the digest of args_canonical"


def test_a_request_that_comes_twice_is_found() -> None:
    problem = asked().problem("approval.requested", REQUESTED, None)
    assert problem == "this approval was requested before"


def test_a_decision_before_its_request_is_found() -> None:
    problem = decide(evidence(), DECIDED, SIGNED)
    assert problem == "no sound approval.requested for this decision stands before it"


@pytest.mark.parametrize("kind", ["approval.requested", "approval.decided", "tool.started"])
def test_data_that_is_not_of_its_type_is_found(kind: str) -> None:
    assert "Field required" in (evidence().problem(kind, {}, None) or "")


@dataclass(frozen=True)
class Tampered:
    id: str
    told: dict[str, Any]
    fields: dict[str, Any]
    problem: str


_OTHER_TELL = "the event tells other than what was signed"
_OTHER_KEY = "the key that the decision names is not in the export, or not the event's"
_TAMPERED = (
    Tampered("told as a denial", {"decision": "deny"}, {}, _OTHER_TELL),
    Tampered("told as a session", {"scope": "session"}, {}, _OTHER_TELL),
    Tampered("told to cover less", {"covered_capabilities": []}, {}, _OTHER_TELL),
    Tampered("told with other arguments", {"effective_args_sha256": EDIT_SHA256}, {}, _OTHER_TELL),
    Tampered("told without the edit", {}, {"override_args": EDIT}, _OTHER_TELL),
    Tampered("another key told", {"key_id": "key_2"}, {}, _OTHER_KEY),
    Tampered(
        "another approver told", {"approver": "bob"}, {}, "the key does not belong to the approver"
    ),
    Tampered(
        "another approver signed",
        {},
        {"approver": "bob"},
        "the key does not belong to the approver",
    ),
    Tampered(
        "another approver all through",
        {"approver": "bob"},
        {"approver": "bob"},
        "the key does not belong to the approver",
    ),
    Tampered(
        "another call",
        {},
        {"args_sha256": "b" * 64},
        "the signed /args_sha256 is not that of approval.requested",
    ),
    Tampered(
        "another tenant",
        {},
        {"tenant": "other"},
        "the signed /tenant is not that of approval.requested",
    ),
    Tampered(
        "a passkey",
        {"assurance": "passkey"},
        {},
        "assurance 'passkey' is not what the signed bytes give",
    ),
)


@pytest.mark.parametrize("case", _TAMPERED, ids=lambda case: case.id)
def test_a_decision_that_was_told_or_signed_otherwise_is_found(case: Tampered) -> None:
    log = asked()
    assert decide(log, DECIDED | case.told, SIGNED | case.fields) == case.problem
    assert log.problem("tool.started", STARTED, None) == TOO_FEW


@pytest.mark.parametrize(
    ("private", "problem"),
    [
        (None, "the signed bytes are no decision: the token must have exactly three parts"),
        (b"\xff", "the signed bytes are no decision: the token must have exactly three parts"),
        (signed(SIGNED, key=BOB).encode(), "the signature does not hold"),
        (signed(SIGNED, kid="key_9").encode(), _OTHER_KEY),
    ],
    ids=["none", "not text", "another signer", "unknown key"],
)
def test_signed_bytes_that_prove_nothing_are_found(private: bytes | None, problem: str) -> None:
    assert asked().problem("approval.decided", DECIDED, private) == problem


PASSKEY = Authenticator.of(11)
BY_PASSKEY = DECIDED | {"assurance": "passkey", "key_id": "passkey_1"}


def with_passkey(principal: str = "alice", **changed: Any) -> Evidence:
    """Evidence that has seen the request, and brings a passkey."""
    registered = Passkey(PASSKEY.credential_id, PASSKEY.cose(), RP_ID)
    log = Evidence("acme", {}, {"passkey_1": ApproverPasskey(registered, principal)})
    assert log.problem("approval.requested", REQUESTED | changed, None) is None
    return log


def decide_by_passkey(log: Evidence, data: dict[str, Any], proof: dict[str, Any]) -> str | None:
    return log.problem("approval.decided", data, compact(proof))


def test_a_decision_by_passkey_is_verified_again_from_its_bytes() -> None:
    log = with_passkey()
    assert decide_by_passkey(log, BY_PASSKEY, PASSKEY.sign(compact(SIGNED))) is None
    assert log.problem("tool.started", STARTED, None) is None


def test_a_key_where_the_request_asks_for_a_passkey_is_found() -> None:
    log = asked(required={"count": 1, "assurance": "passkey"})
    problem = decide(log, DECIDED, SIGNED)
    assert problem == "approval.requested asks for a passkey, and assurance is 'key'"
    assert log.problem("tool.started", STARTED, None) == TOO_FEW


@pytest.mark.parametrize(
    "required",
    [{"assurance": "passkey"}, {"assurance": "key"}, {"assurance": "channel"}, {}],
    ids=str,
)
def test_a_passkey_is_as_much_as_any_request_asks_for(required: dict[str, str]) -> None:
    log = with_passkey(required={"count": 1} | required)
    assert decide_by_passkey(log, BY_PASSKEY, PASSKEY.sign(compact(SIGNED))) is None
    assert log.problem("tool.started", STARTED, None) is None


@pytest.mark.parametrize("required", [{"assurance": "channel"}, {}], ids=str)
def test_a_key_is_enough_where_less_or_nothing_is_asked_for(required: dict[str, str]) -> None:
    log = asked(required={"count": 1} | required)
    assert decide(log, DECIDED, SIGNED) is None
    assert log.problem("tool.started", STARTED, None) is None


def test_a_request_for_an_unknown_assurance_is_found() -> None:
    required = {"count": 1, "assurance": "oath"}
    problem = evidence().problem("approval.requested", REQUESTED | {"required": required}, None)
    assert problem is not None
    assert problem.startswith("/required/assurance: Input should be")


def test_a_decision_by_passkey_that_was_told_or_signed_otherwise_is_found() -> None:
    proof = PASSKEY.sign(compact(SIGNED))
    told = DECIDED | {"key_id": "passkey_1"}
    cases = [
        (with_passkey(), told, proof, "assurance 'key' is not what the signed bytes give"),
        (asked(), BY_PASSKEY, proof, "the passkey that the event names is not in the export"),
        (with_passkey("bob"), BY_PASSKEY, proof, "the passkey does not belong to the approver"),
        (
            with_passkey(),
            BY_PASSKEY,
            Authenticator.of(11, flags=UP).sign(compact(SIGNED)),
            "the assertion does not hold",
        ),
        (
            with_passkey(),
            BY_PASSKEY,
            PASSKEY.sign(b'{"v":1}'),
            "the signed bytes are no decision: Field required",
        ),
    ]
    for log, data, posted, problem in cases:
        assert decide_by_passkey(log, data, posted) == problem
    broken = "the signed bytes are no decision: : Input should be a valid dictionary"
    found = with_passkey().problem("approval.decided", BY_PASSKEY, b"{")
    assert found is not None
    assert found.startswith(broken)
