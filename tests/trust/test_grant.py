"""What a principal signs about a grant: its forms, its coverage, and that neither passes for other.

Expectations are written by hand from turn.md 6.8 and service.md 5.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from app.policy.constraints import Constraint
from app.trust.grant import (
    Coverage,
    GrantPayload,
    RevocationPayload,
    Signable,
    build_grant,
    build_revocation,
    canonical_text,
    lapse,
    read_evidence,
    read_signed,
    verify_grant,
    verify_revocation,
)
from app.trust.passkey import Passkey
from app.trust.passkey_decision import read_passkey_decision
from app.trust.refusal import Refused
from tests.support.authenticator import RP_ID, UP, Authenticator
from tests.trust.decisions import APPROVE
from tests.trust.signer import b64, compact

NOW = 1_795_953_600
COVERAGE = Coverage(
    tenant="acme",
    principal="alice",
    agent="courier",
    tool="http_post",
    tool_definition_digest="dd",
    capabilities=("arbitrary-egress",),
    constraints=(Constraint("/url", "url_prefix", "https://api.test/orders"),),
)
COVERED = (
    '{"agent":"courier","capabilities":["arbitrary-egress"],"constraints":[{"op":"url_prefix",'
    '"pointer":"/url","value":"https://api.test/orders"}],"principal":"alice","tenant":"acme",'
    '"tool":"http_post","tool_definition_digest":"dd"}'
)
GRANT = (
    '{"agent":"courier","capabilities":["arbitrary-egress"],"constraints":[{"op":"url_prefix",'
    '"pointer":"/url","value":"https://api.test/orders"}],"exp":1795954200,"expires_at":1795957200,'
    '"iat":1795953600,"nonce":"AAAAAAAAAAAAAAAAAAAAAA","principal":"alice","tenant":"acme",'
    '"tool":"http_post","tool_definition_digest":"dd","typ":"turngate.grant","v":1}'
)
REVOCATION = (
    '{"coverage_hash":"' + sha256(COVERED.encode()).hexdigest() + '","exp":1795954200,'
    '"grant_id":"grant_1","iat":1795953600,"nonce":"AAAAAAAAAAAAAAAAAAAAAA","principal":"alice",'
    '"tenant":"acme","typ":"turngate.grant-revocation","v":1}'
)


def grant() -> GrantPayload:
    return build_grant(COVERAGE, expires_at=NOW + 3600, nonce=bytes(16), now=NOW)


def signed(text: str | bytes) -> dict[str, Any]:
    return Authenticator.of(11).sign(text)


def changed(**members: Any) -> bytes:
    """The grant's text with other members; those that are None are left out."""
    fields = grant().model_dump(mode="json") | members
    return compact({name: value for name, value in fields.items() if value is not None})


def test_the_coverage_hash_is_over_everything_that_is_covered() -> None:
    assert COVERAGE.sha256 == sha256(COVERED.encode()).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        {"tenant": "umbrella"},
        {"principal": "bob"},
        {"agent": "clerk"},
        {"tool": "web_fetch"},
        {"tool_definition_digest": "ee"},
        {"capabilities": ("arbitrary-egress", "mutate-external")},
        {"constraints": ()},
        {"constraints": (Constraint("/url", "equals", "https://api.test/orders"),)},
    ],
    ids=str,
)
def test_whatever_changes_of_the_coverage_changes_its_hash(other: dict[str, Any]) -> None:
    assert replace(COVERAGE, **other).sha256 != COVERAGE.sha256


def test_the_texts_to_sign() -> None:
    assert canonical_text(grant()) == GRANT
    revocation = build_revocation(COVERAGE, "grant_1", nonce=bytes(16), now=NOW)
    assert canonical_text(revocation) == REVOCATION


def test_what_was_signed_is_read_back_with_its_coverage() -> None:
    read = read_signed(GrantPayload, signed(GRANT))
    assert isinstance(read, Signable)
    assert (read.payload, read.payload.coverage) == (grant(), COVERAGE)
    assert read_evidence(GrantPayload, read.proof.evidence) == read
    back = read_signed(RevocationPayload, signed(REVOCATION))
    assert isinstance(back, Signable)
    assert (back.payload.grant_id, back.payload.coverage_hash) == ("grant_1", COVERAGE.sha256)


def test_no_text_passes_for_one_of_another_kind() -> None:
    """turn.md 6.2: one typ per artifact kind, so none passes for another."""
    decision = compact(APPROVE)
    for text in (decision, REVOCATION):
        assert isinstance(read_signed(GrantPayload, signed(text)), Refused)
    for text in (decision, GRANT):
        assert isinstance(read_signed(RevocationPayload, signed(text)), Refused)
    for text in (GRANT, REVOCATION):
        assert not hasattr(read_passkey_decision(signed(text)), "payload")


@pytest.mark.parametrize(
    "members",
    [
        {"v": None},
        {"v": True},
        {"v": 2},
        {"typ": None},
        {"typ": "turngate.decision"},
        {"tenant": None},
        {"principal": 7},
        {"planet": "mars"},
        {"capabilities": "arbitrary-egress"},
        {"nonce": "AAAA"},
        {"nonce": "!"},
        {"constraints": [{"pointer": "url", "op": "equals", "value": 1}]},
        {"constraints": [{"pointer": "/url", "op": "matches", "value": ".*"}]},
        {"constraints": [{"pointer": "/n", "op": "range", "value": [2, 1]}]},
        {"constraints": [{"pointer": "/n", "op": "equals"}]},
        {"expires_at": "tomorrow"},
        {"expires_at": 253_402_300_800},
        {"exp": NOW + 601},
        {"exp": NOW},
    ],
    ids=str,
)
def test_a_malformed_text_is_no_grant(members: dict[str, Any]) -> None:
    assert isinstance(read_signed(GrantPayload, signed(changed(**members))), Refused)


@pytest.mark.parametrize(
    "proof",
    [None, {}, [], {"canonical": GRANT}, {"canonical": f" {GRANT}", "assertion": {}}],
    ids=str,
)
def test_what_is_no_assertion_is_no_grant(proof: object) -> None:
    assert isinstance(read_signed(GrantPayload, proof), Refused)


def test_evidence_that_was_altered_is_none() -> None:
    for evidence in (b"", b"{", b"[]", b'{"canonical":"{}"}'):
        assert isinstance(read_evidence(GrantPayload, evidence), Refused)


def test_a_ceremony_is_good_for_ten_minutes() -> None:
    assert lapse(grant(), now=NOW + 600) is None
    assert lapse(grant(), now=NOW + 601) == "the text to sign has expired"
    assert lapse(grant(), now=NOW - 60) is None
    assert lapse(grant(), now=NOW - 61) == "iat must be at most 60 seconds ahead"


def passkey_of(secret: int = 11) -> Passkey:
    authenticator = Authenticator.of(secret)
    return Passkey(authenticator.credential_id, authenticator.cose(), RP_ID)


def enrolled(**members: Any) -> bytes:
    """What is kept of a grant that was signed; `members` are of its authenticator."""
    return compact(Authenticator.of(11, **members).sign(GRANT))


def holds(evidence: bytes, coverage: Coverage = COVERAGE, *, lasts_s: int = 3600) -> bool:
    found = verify_grant(
        evidence, passkey=passkey_of(), coverage=coverage, expires_at=NOW + lasts_s
    )
    return isinstance(found, GrantPayload)


def test_what_is_kept_of_a_grant_proves_it_for_good() -> None:
    assert holds(enrolled())
    assert holds(enrolled(origin="https://old.turngate.test"))


def test_it_proves_no_other_grant() -> None:
    assert not holds(enrolled(), replace(COVERAGE, capabilities=("mutate-external",)))
    assert not holds(enrolled(), replace(COVERAGE, constraints=()))
    assert not holds(enrolled(), lasts_s=3601)


def test_it_proves_nothing_that_its_passkey_did_not_sign() -> None:
    assert not holds(enrolled(flags=UP))
    assert not holds(enrolled(client={"challenge": b64(bytes(32))}))
    assert not holds(b"{}")
    other = verify_grant(
        enrolled(), passkey=passkey_of(12), coverage=COVERAGE, expires_at=NOW + 3600
    )
    assert isinstance(other, Refused)


def revokes(evidence: bytes, coverage: Coverage = COVERAGE, *, grant_id: str = "grant_1") -> bool:
    found = verify_revocation(evidence, passkey=passkey_of(), coverage=coverage, grant_id=grant_id)
    return found is None


def test_a_kept_revocation_proves_the_end_of_one_grant() -> None:
    evidence = compact(signed(REVOCATION))
    assert revokes(evidence)
    assert not revokes(evidence, grant_id="grant_2")
    assert not revokes(evidence, replace(COVERAGE, principal="bob"))
    assert not revokes(evidence, replace(COVERAGE, tenant="umbrella"))
    assert not revokes(evidence, replace(COVERAGE, tool="http_fetch"))
    assert not revokes(enrolled())
    assert not revokes(compact(Authenticator.of(12).sign(REVOCATION)))
