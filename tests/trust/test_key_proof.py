"""Key statements: who holds the new key, and which older key vouches for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.trust.key_proof import Enrolment, VerifiedStatement, verify_endorsement, verify_key_proof
from app.trust.refusal import Refused, UnknownKey
from tests.trust.signer import Signer, compact

NOW = 1_800_000_000
NEW, OLD = Signer.of(8), Signer.of(7)
THUMBPRINT = NEW.public.thumbprint()
ENROLMENT = Enrolment("acme", "alice", THUMBPRINT)
PROOF: dict[str, Any] = {
    "typ": "turngate.key-proof",
    "tenant": "acme",
    "sub": "alice",
    "thumbprint": THUMBPRINT,
    "iat": NOW,
    "exp": NOW + 600,
}
ENDORSEMENT = PROOF | {"typ": "turngate.key-endorsement"}
PROOF_HEAD: dict[str, Any] = {
    "alg": "ES256",
    "kid": THUMBPRINT,
    "typ": "turngate-key-proof+jws",
}
ENDORSEMENT_HEAD: dict[str, Any] = {
    "alg": "ES256",
    "kid": "key_1",
    "typ": "turngate-key-endorsement+jws",
}


def prove(text: str, *, now: int = NOW) -> VerifiedStatement | Refused:
    return verify_key_proof(text, key=NEW.public, enrolment=ENROLMENT, now=now)


def endorse(text: str, *, now: int = NOW) -> VerifiedStatement | Refused:
    return verify_endorsement(text, active={"key_1": OLD.public}, enrolment=ENROLMENT, now=now)


def proof(fields: dict[str, Any], *, key: Signer = NEW, **header: Any) -> str:
    return key.jws(PROOF_HEAD | header, compact(fields))


def endorsement(fields: dict[str, Any], *, key: Signer = OLD, **header: Any) -> str:
    return key.jws(ENDORSEMENT_HEAD | header, compact(fields))


def test_a_new_key_proves_itself() -> None:
    verified = prove(proof(PROOF))
    assert isinstance(verified, VerifiedStatement)
    assert (verified.kid, verified.statement.sub) == (THUMBPRINT, "alice")


def test_an_active_key_vouches_for_a_new_one() -> None:
    verified = endorse(endorsement(ENDORSEMENT))
    assert isinstance(verified, VerifiedStatement)
    assert (verified.kid, verified.statement.thumbprint) == ("key_1", THUMBPRINT)


def test_the_statement_need_not_be_canonical_but_must_say_each_thing_once() -> None:
    spaced = compact(PROOF).replace(b",", b" , ")
    assert isinstance(prove(NEW.jws(PROOF_HEAD, spaced)), VerifiedStatement)
    twice = b'{"sub":"mallory",' + compact(PROOF)[1:]
    assert isinstance(prove(NEW.jws(PROOF_HEAD, twice)), Refused)


def test_neither_statement_passes_for_the_other() -> None:
    assert isinstance(prove(endorsement(ENDORSEMENT)), Refused)
    assert isinstance(prove(proof(ENDORSEMENT)), Refused)
    assert isinstance(endorse(proof(PROOF)), Refused)
    assert isinstance(endorse(endorsement(PROOF)), Refused)


def test_a_proof_by_another_key_or_under_another_thumbprint_is_refused() -> None:
    assert isinstance(prove(proof(PROOF, key=OLD)), Refused)
    assert isinstance(prove(proof(PROOF, kid=OLD.public.thumbprint())), Refused)
    verdict = verify_key_proof(proof(PROOF), key=OLD.public, enrolment=ENROLMENT, now=NOW)
    assert verdict == Refused("kid must be the thumbprint of the new key")


def test_a_new_key_cannot_vouch_for_itself() -> None:
    assert isinstance(endorse(endorsement(ENDORSEMENT, key=NEW)), Refused)


def test_a_key_that_is_not_active_cannot_vouch() -> None:
    assert isinstance(endorse(endorsement(ENDORSEMENT, kid="key_2")), UnknownKey)


@pytest.mark.parametrize(
    "head",
    [{"alg": "RS256"}, {"typ": "turngate-decision+jws"}, {"jwk": NEW.jwk}, {"cty": "json"}],
    ids=["alg", "typ", "a key", "another member"],
)
def test_a_header_that_is_not_exactly_the_kinds_own_is_refused(head: dict[str, Any]) -> None:
    assert isinstance(prove(proof(PROOF, **head)), Refused)
    assert isinstance(endorse(endorsement(ENDORSEMENT, **head)), Refused)


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "other"},
        {"sub": "mallory"},
        {"thumbprint": OLD.public.thumbprint()},
        {"typ": "turngate.decision"},
        {"iat": True},
        {"exp": str(NOW)},
        {"exp": NOW + 601},
        {"exp": NOW},
        {"sub": None},
        {"more": 1},
    ],
    ids=str,
)
def test_a_statement_about_anything_else_is_refused(change: dict[str, Any]) -> None:
    assert isinstance(prove(proof(PROOF | change)), Refused)
    assert isinstance(endorse(endorsement(ENDORSEMENT | change)), Refused)


@pytest.mark.parametrize("life", [1, 600])
def test_a_statement_may_live_from_one_second_to_ten_minutes(life: int) -> None:
    assert isinstance(prove(proof(PROOF | {"exp": NOW + life})), VerifiedStatement)


@pytest.mark.parametrize("name", list(PROOF))
def test_a_statement_without_one_of_its_fields_is_refused(name: str) -> None:
    assert isinstance(prove(proof({k: v for k, v in PROOF.items() if k != name})), Refused)


@dataclass(frozen=True)
class Moment:
    now: int
    accepted: bool


@pytest.mark.parametrize(
    "moment",
    [
        Moment(NOW - 61, accepted=False),
        Moment(NOW - 60, accepted=True),
        Moment(NOW + 600, accepted=True),
        Moment(NOW + 601, accepted=False),
    ],
    ids=str,
)
def test_a_statement_serves_from_a_minute_before_it_was_made_to_its_end(moment: Moment) -> None:
    verified = prove(proof(PROOF), now=moment.now)
    assert isinstance(verified, VerifiedStatement) is moment.accepted


@given(st.text(max_size=60), st.binary(min_size=1, max_size=60))
def test_random_text_and_random_signed_bytes_raise_nothing(text: str, payload: bytes) -> None:
    assert isinstance(prove(text), Refused)
    assert isinstance(endorse(text), Refused)
    assert isinstance(prove(NEW.jws(PROOF_HEAD, payload)), Refused)
