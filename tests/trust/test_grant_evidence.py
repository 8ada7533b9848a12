"""Grants in an exported log: what their principals signed, and every way of telling otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from app.trust.evidence import ApproverPasskey
from app.trust.grant import Coverage
from app.trust.grant_evidence import GrantEvidence
from app.trust.passkey import Passkey
from app.trust.statement import StatementKind, sign_statement
from tests.support.authenticator import RP_ID, UP, Authenticator
from tests.trust.logs import SERVICE
from tests.trust.signer import compact
from tests.trust.test_grant import COVERAGE, GRANT, REVOCATION

RESOURCE: dict[str, Any] = {
    "id": "grant_1",
    "principal": "alice",
    "agent": "courier",
    "tool": "http_post",
    "tool_definition_digest": "dd",
    "capabilities": ["arbitrary-egress"],
    "constraints": [{"pointer": "/url", "op": "url_prefix", "value": "https://api.test/orders"}],
    "coverage_hash": COVERAGE.sha256,
    "expires_at": "2026-11-29T13:00:00.000Z",
}
SIGNED = {"resource": RESOURCE, "by": "alice", "passkey_id": "pk_1"}
SUSPENDED = {"resource": RESOURCE, "by": "boss"}
SAID: dict[str, Any] = {
    "tenant": "acme",
    "grant_id": "grant_1",
    "coverage_hash": COVERAGE.sha256,
    "by": "boss",
}


def evidence() -> GrantEvidence:
    authenticator = Authenticator.of(11)
    passkey = Passkey(authenticator.credential_id, authenticator.cose(), RP_ID)
    passkeys = {"pk_1": ApproverPasskey(passkey, "alice"), "pk_2": ApproverPasskey(passkey, "bob")}
    return GrantEvidence("acme", passkeys, {"service-1": SERVICE.public})


def asserted(text: str, secret: int = 11, **members: Any) -> bytes:
    return compact(Authenticator.of(secret, **members).sign(text))


def statement(kind: StatementKind = StatementKind.GRANT_SUSPENSION, **changed: Any) -> bytes:
    return sign_statement(kind, SAID | changed, key=SERVICE, kid="service-1").encode()


def enrolled() -> GrantEvidence:
    """A log that has told of one sound grant."""
    found = evidence()
    assert found.problem("grant.enrolled", SIGNED, asserted(GRANT)) is None
    return found


def test_a_sound_life_has_no_problem() -> None:
    found = enrolled()
    assert found.problem("grant.suspended", SUSPENDED, statement()) is None
    assert found.problem("grant.revoked", SIGNED, asserted(REVOCATION)) is None
    assert found.problem("agent.saved", {}, None) is None


def said(**changed: Any) -> dict[str, Any]:
    """The event with another resource."""
    return SIGNED | {"resource": RESOURCE | changed}


@dataclass(frozen=True)
class Unsound:
    id: str
    data: dict[str, Any]
    private: bytes | None
    found: str


OTHER = "the grant covers other than what was signed"
ENROLMENTS = [
    Unsound("no data", {}, asserted(GRANT), "/resource"),
    Unsound("no evidence", SIGNED, None, ": Input should be"),
    Unsound("not verified", SIGNED, asserted(GRANT, flags=UP), "does not hold"),
    Unsound("another passkey", SIGNED, asserted(GRANT, 12), "another credential"),
    Unsound("a revocation", SIGNED, asserted(REVOCATION), "/typ: Input should be"),
    Unsound("unknown passkey", SIGNED | {"passkey_id": "pk_9"}, asserted(GRANT), "not in the"),
    Unsound("bob's", SIGNED | {"passkey_id": "pk_2"}, asserted(GRANT), "does not belong"),
    Unsound("by bob", SIGNED | {"by": "bob"}, asserted(GRANT), "does not belong"),
    Unsound("another tool", said(tool="shell_exec"), asserted(GRANT), OTHER),
    Unsound("another agent", said(agent="clerk"), asserted(GRANT), OTHER),
    Unsound("more", said(capabilities=["manage-admin"]), asserted(GRANT), OTHER),
    Unsound("no constraint", said(constraints=[]), asserted(GRANT), OTHER),
    Unsound("longer", said(expires_at="2026-11-29T13:00:01.000Z"), asserted(GRANT), OTHER),
    Unsound("no time", said(expires_at="soon"), asserted(GRANT), "the grant cannot be"),
    Unsound(
        "no constraint at all",
        said(constraints=[{"pointer": "url", "op": "equals", "value": 1}]),
        asserted(GRANT),
        "the grant cannot be",
    ),
    Unsound("another hash", said(coverage_hash="cc"), asserted(GRANT), "coverage_hash is not"),
]


@pytest.mark.parametrize("case", ENROLMENTS, ids=lambda case: case.id)
def test_an_enrolment_that_nobody_signed_so_is_found(case: Unsound) -> None:
    problem = evidence().problem("grant.enrolled", case.data, case.private)
    assert problem is not None
    assert case.found in problem


def test_one_signed_text_makes_one_grant() -> None:
    found = enrolled()
    for ident in ("grant_1", "grant_2"):
        problem = found.problem("grant.enrolled", said(id=ident), asserted(GRANT))
        assert problem == "this grant, or one with the same signed text, was enrolled before"


PASSKEY = {"resource": {"id": "pk_1", "principal": "alice"}, "by": "alice"}
RESET = {"resource": {"principal": "alice"}, "by": "boss"}


@pytest.mark.parametrize(("kind", "data"), [("passkey.revoked", PASSKEY), ("keys.reset", RESET)])
def test_a_passkey_that_was_revoked_before_signs_nothing(kind: str, data: dict[str, Any]) -> None:
    found = evidence()
    assert found.problem("passkey.registered", PASSKEY, None) is None
    assert found.problem("grant.enrolled", SIGNED, asserted(GRANT)) is None
    assert found.problem(kind, data, None) is None
    gone = "the passkey was revoked before"
    assert found.problem("grant.revoked", SIGNED, asserted(REVOCATION)) == gone
    assert found.problem("grant.enrolled", said(id="grant_2"), asserted(GRANT)) == gone


def test_a_reset_ends_what_its_principal_had_before_it() -> None:
    found = evidence()
    other = {"resource": {"principal": "bob"}, "by": "boss"}
    for kind, data in (
        ("keys.reset", RESET),
        ("passkey.registered", PASSKEY),
        ("keys.reset", other),
    ):
        assert found.problem(kind, data, None) is None
    assert found.problem("grant.enrolled", SIGNED, asserted(GRANT)) is None


@pytest.mark.parametrize("kind", ["passkey.registered", "passkey.revoked", "keys.reset"])
def test_what_names_no_passkey_and_nobody_is_found(kind: str) -> None:
    assert evidence().problem(kind, {}, None) == "/resource: Field required"


ENDS = [
    Unsound("no data", {}, asserted(REVOCATION), "/resource"),
    Unsound("no evidence", SIGNED, None, ": Input should be"),
    Unsound("not verified", SIGNED, asserted(REVOCATION, flags=UP), "does not hold"),
    Unsound("an enrolment", SIGNED, asserted(GRANT), "/typ: Input should be"),
    Unsound("unknown passkey", SIGNED | {"passkey_id": "pk_9"}, asserted(REVOCATION), "not in"),
    Unsound("no such grant", said(id="grant_2"), asserted(REVOCATION), "no sound grant.enrolled"),
    Unsound("another hash", said(coverage_hash="cc"), asserted(REVOCATION), "coverage_hash"),
]


@pytest.mark.parametrize("case", ENDS, ids=lambda case: case.id)
def test_a_revocation_that_nobody_signed_so_is_found(case: Unsound) -> None:
    problem = enrolled().problem("grant.revoked", case.data, case.private)
    assert problem is not None
    assert case.found in problem


def test_a_revocation_is_of_the_grant_that_it_names() -> None:
    found = enrolled()
    other = GRANT.replace("AAAAAAAAAAAAAAAAAAAAAA", "AQAAAAAAAAAAAAAAAAAAAA")
    assert found.problem("grant.enrolled", said(id="grant_2"), asserted(other)) is None
    problem = found.problem("grant.revoked", said(id="grant_2"), asserted(REVOCATION))
    assert problem == "the signed /grant_id is not that of the grant"


STOPS = [
    Unsound("no data", {}, statement(), "/resource"),
    Unsound("no evidence", SUSPENDED, None, "not the service's"),
    Unsound("an assertion", SUSPENDED, asserted(REVOCATION), "not the service's"),
    Unsound("another kind", SUSPENDED, statement(StatementKind.SEAL), "not the service's"),
    Unsound("by another", SUSPENDED | {"by": "eve"}, statement(), "other than what was signed"),
    Unsound("another grant", SUSPENDED, statement(grant_id="grant_2"), "other than what was"),
    Unsound("another tenant", SUSPENDED, statement(tenant="umbrella"), "other than what was"),
    Unsound("no such grant", said(id="grant_2") | {"by": "boss"}, statement(), "no sound"),
]


@pytest.mark.parametrize("case", STOPS, ids=lambda case: case.id)
def test_a_suspension_that_the_service_did_not_sign_so_is_found(case: Unsound) -> None:
    problem = enrolled().problem("grant.suspended", case.data, case.private)
    assert problem is not None
    assert case.found in problem


def test_a_grant_of_another_tenant_is_none() -> None:
    assert isinstance(COVERAGE, Coverage)
    found = evidence()
    found.tenant = "umbrella"
    problem = found.problem("grant.enrolled", SIGNED, asserted(GRANT))
    assert problem == "the grant covers other than what was signed"
