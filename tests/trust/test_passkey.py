"""Passkey proofs and registrations: what holds, and everything that must not (service.md 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from app.trust.passkey import (
    NewPasskey,
    Passkey,
    PasskeyProof,
    challenge_in,
    owns,
    read_proof,
    verify_proof,
    verify_registration,
)
from app.trust.refusal import Refused
from tests.support.authenticator import ORIGIN, RP_ID, UP, UV, Authenticator
from tests.trust.signer import b64

TEXT = b'{"a":1}'
ORIGINS = frozenset({ORIGIN})
CHALLENGE = b"challenge"


def passkey(authenticator: Authenticator) -> Passkey:
    return Passkey(authenticator.credential_id, authenticator.cose(), RP_ID)


def proof_of(posted: dict[str, Any]) -> PasskeyProof:
    proof = read_proof(posted)
    assert isinstance(proof, PasskeyProof), proof
    return proof


def test_a_proof_holds_with_and_without_a_list_of_origins() -> None:
    authenticator = Authenticator.of(11)
    proof = proof_of(authenticator.sign(TEXT))
    for origins in (ORIGINS, None):
        assert verify_proof(proof, passkey=passkey(authenticator), origins=origins) is None
    assert (proof.canonical, proof.sign_count) == (TEXT, 1)
    assert proof.thumbprint == passkey(authenticator).thumbprint == authenticator.thumbprint


def test_its_evidence_is_the_same_proof_again() -> None:
    posted = Authenticator.of(11).sign(TEXT)
    turned = {"assertion": dict(reversed(posted["assertion"].items())), "canonical": TEXT.decode()}
    assert proof_of(posted).evidence == proof_of(turned).evidence


@dataclass(frozen=True)
class Bad:
    id: str
    reason: str
    members: dict[str, Any] = field(default_factory=dict)


BAD = [
    Bad("another origin", "origin must be one of the allowed", {"origin": "https://evil.test"}),
    Bad("another rp id", "does not hold", {"rp_id": "evil.test"}),
    Bad("nobody verified", "does not hold", {"flags": UP}),
    Bad("nobody there", "does not hold", {"flags": UV}),
    Bad("another challenge", "does not hold", {"client": {"challenge": b64(bytes(32))}}),
    Bad("a registration", "does not hold", {"client": {"type": "webauthn.create"}}),
    Bad("a frame of another site", "crossOrigin", {"client": {"crossOrigin": True}}),
    Bad("a page around it", "crossOrigin", {"client": {"topOrigin": ORIGIN}}),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.id)
def test_a_proof_that_does_not_hold(bad: Bad) -> None:
    authenticator = Authenticator.of(11, **bad.members)
    proof = proof_of(authenticator.sign(TEXT))
    refused = verify_proof(proof, passkey=passkey(authenticator), origins=ORIGINS)
    assert isinstance(refused, Refused)
    assert bad.reason in refused.reason


def test_another_key_or_credential_proves_nothing() -> None:
    mine, other = Authenticator.of(11), Authenticator.of(12)
    proof = proof_of(mine.sign(TEXT))
    swapped = Passkey(mine.credential_id, other.cose(), RP_ID)
    for wrong in (swapped, passkey(other), Passkey(mine.credential_id, b"", RP_ID)):
        assert isinstance(verify_proof(proof, passkey=wrong, origins=None), Refused)


def test_an_assertion_proves_no_other_text() -> None:
    authenticator = Authenticator.of(11)
    posted = authenticator.sign(TEXT) | {"canonical": '{"a":2}'}
    refused = verify_proof(proof_of(posted), passkey=passkey(authenticator), origins=ORIGINS)
    assert isinstance(refused, Refused)


def test_without_a_list_an_origin_must_still_be_the_relying_partys() -> None:
    authenticator = Authenticator.of(11, origin="https://turngate.test.evil.test")
    proof = proof_of(authenticator.sign(TEXT))
    assert isinstance(verify_proof(proof, passkey=passkey(authenticator), origins=None), Refused)


def edited(**changed: Any) -> dict[str, Any]:
    """A proof whose assertion has other members; those of `response` are merged."""
    posted = Authenticator.of(11).sign(TEXT)
    assertion = posted["assertion"]
    assertion["response"] = assertion["response"] | changed.pop("response", {})
    posted["assertion"] = assertion | changed
    return posted


TWICE = b64(b'{"type":"a","type":"b","challenge":"","origin":""}')
FORMS: dict[str, object] = {
    "nothing": None,
    "a list": [],
    "a member too many": Authenticator.of(11).sign(TEXT) | {"more": 1},
    "no assertion": {"canonical": "{}", "assertion": {}},
    "not canonical": Authenticator.of(11).sign(TEXT) | {"canonical": '{"a": 1}'},
    "half a character": Authenticator.of(11).sign(TEXT) | {"canonical": '"\ud800"'},
    "two ids": edited(rawId="AAAA"),
    "no id": edited(id="", rawId=""),
    "an id that is none": edited(id="a=", rawId="a="),
    "another type": edited(type="password"),
    "a member twice": edited(response={"clientDataJSON": TWICE}),
    "client data that are none": edited(response={"clientDataJSON": "!"}),
    "too little of an authenticator": edited(response={"authenticatorData": b64(bytes(36))}),
    "no authenticator": edited(response={"authenticatorData": "!"}),
    "no canonical form": edited(more="\ud800"),
}


@pytest.mark.parametrize("posted", FORMS.values(), ids=FORMS.keys())
def test_what_is_no_proof_at_all(posted: object) -> None:
    assert isinstance(read_proof(posted), Refused)


@pytest.mark.parametrize(
    ("origin", "is_owned"),
    [
        ("https://turngate.test", True),
        ("https://a.b.turngate.test:8443", True),
        ("http://app.turngate.test", False),
        ("https://notturngate.test", False),
        ("https://turngate.test.evil.test", False),
        ("https://turngate.test@evil.test", False),
        ("https://turngate.test/", False),
        ("https://turngate.test\n", False),
        ("android:apk-key-hash:AAAA", False),
        ("null", False),
    ],
)
def test_an_origin_of_the_relying_party(origin: str, is_owned: bool) -> None:
    assert owns(RP_ID, origin) is is_owned


def test_localhost_needs_no_tls() -> None:
    assert owns("localhost", "http://localhost:8000")
    assert owns("app.localhost", "http://app.localhost")


def made(authenticator: Authenticator, **changed: Any) -> NewPasskey | Refused:
    credential = authenticator.create({"challenge": b64(CHALLENGE)}) | changed
    return verify_registration(credential, challenge=CHALLENGE, rp_id=RP_ID, origins=ORIGINS)


def test_a_registration_gives_the_passkey() -> None:
    authenticator = Authenticator.of(11, count=5)
    assert made(authenticator) == NewPasskey(passkey(authenticator), 5)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.id)
def test_a_registration_that_does_not_hold(bad: Bad) -> None:
    wrong = {"type": "webauthn.get"} if bad.id == "a registration" else {}
    members = bad.members | ({"client": wrong} if wrong else {})
    refused = made(Authenticator.of(11, **members))
    assert isinstance(refused, Refused)


def test_a_registration_under_another_id_or_in_another_form() -> None:
    authenticator = Authenticator.of(11)
    for changed in ({"id": "AAAA", "rawId": "AAAA"}, {"id": "AAAA"}, {"type": "x"}):
        assert isinstance(made(authenticator, **changed), Refused)
    for response in ({"clientDataJSON": "!"}, {"clientDataJSON": b64(b"{}")}):
        assert isinstance(made(authenticator, response=response), Refused)


def test_the_challenge_that_a_registration_answers() -> None:
    authenticator = Authenticator.of(11)
    assert challenge_in(authenticator.create({"challenge": b64(CHALLENGE)})) == CHALLENGE
    assert isinstance(challenge_in(authenticator.create({"challenge": "="})), Refused)
    assert isinstance(challenge_in({}), Refused)
    broken = authenticator.create({"challenge": ""}) | {"response": {"clientDataJSON": "!"}}
    assert isinstance(challenge_in(broken), Refused)
