"""Decisions by passkey: read back beside those by key, and endorsements that a passkey signs."""

from __future__ import annotations

from typing import Any

import pytest

from app.trust.decision import ReadDecision, VerifiedDecision
from app.trust.key_proof import Enrolment, KeyStatement, verify_endorsement_text
from app.trust.passkey import Passkey
from app.trust.passkey_decision import (
    ReadPasskeyDecision,
    read_evidence,
    read_passkey_decision,
    verify_passkey_decision,
)
from app.trust.refusal import Refused
from tests.support.authenticator import RP_ID, Authenticator
from tests.trust.decisions import APPROVE, NOW, signed
from tests.trust.signer import compact

TEXT = compact(APPROVE)
ENROLMENT = Enrolment("acme", "alice", "print")
STATEMENT: dict[str, Any] = {
    "typ": "turngate.key-endorsement",
    "tenant": "acme",
    "sub": "alice",
    "thumbprint": "print",
    "iat": NOW,
    "exp": NOW + 300,
}


def test_either_kind_of_evidence_gives_the_bytes_that_were_signed() -> None:
    by_key = read_evidence(signed(APPROVE).encode())
    by_passkey = read_evidence(compact(Authenticator.of(11).sign(TEXT)))
    assert isinstance(by_key, ReadDecision)
    assert isinstance(by_passkey, ReadPasskeyDecision)
    assert by_key.payload_bytes == by_passkey.payload_bytes == TEXT
    assert by_key.payload == by_passkey.payload


def test_what_a_passkey_signed_is_verified_again_from_its_evidence() -> None:
    authenticator = Authenticator.of(11)
    passkey = Passkey(authenticator.credential_id, authenticator.cose(), RP_ID)
    read = read_passkey_decision(authenticator.sign(TEXT))
    assert isinstance(read, ReadPasskeyDecision)
    first = verify_passkey_decision(read, passkey=passkey, key_id="passkey_1")
    assert isinstance(first, VerifiedDecision)
    assert (first.kid, first.assurance, first.payload_bytes) == ("passkey_1", "passkey", TEXT)
    again = read_evidence(first.evidence)
    assert isinstance(again, ReadPasskeyDecision)
    assert verify_passkey_decision(again, passkey=passkey, key_id="passkey_1") == first


def test_an_endorsement_is_read_from_the_bytes_that_were_signed() -> None:
    found = verify_endorsement_text(compact(STATEMENT), enrolment=ENROLMENT, now=NOW)
    assert found == KeyStatement(**STATEMENT)


@pytest.mark.parametrize(
    "changed",
    [{"typ": "turngate.key-proof"}, {"sub": "bob"}, {"thumbprint": "other"}, {"exp": NOW + 601}],
    ids=["a proof", "another person", "another key", "for too long"],
)
def test_an_endorsement_of_something_else_is_none(changed: dict[str, Any]) -> None:
    text = compact(STATEMENT | changed)
    assert isinstance(verify_endorsement_text(text, enrolment=ENROLMENT, now=NOW), Refused)
