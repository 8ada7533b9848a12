"""Access tokens: whose claims are believed, and until when."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.trust.access_token import AccessClaims, verify_access_token
from app.trust.keys import PublicKey, RsaKey
from app.trust.refusal import Refused, UnknownKey
from tests.trust.signer import RsaSigner, Signer, compact

NOW = 1_800_000_000
KEY = Signer.of(7)
HEAD = {"alg": "ES256", "kid": "issuer-1", "typ": "JWT"}
CLAIMS: dict[str, Any] = {
    "iss": "https://issuer.example",
    "aud": "turngate",
    "sub": "alice",
    "tid": "acme",
    "scope": "runs:read runs:write",
    "roles": ["approver"],
    "jti": "t-1",
    "nbf": NOW - 5,
    "iat": NOW - 5,
    "exp": NOW + 600,
}


def verify(token: str, *, now: int = NOW, key: PublicKey = KEY.public) -> AccessClaims | Refused:
    return verify_access_token(
        token,
        keys={"issuer-1": key},
        issuer="https://issuer.example",
        audience="turngate",
        now=now,
    )


def of(claims: object, **header: Any) -> str:
    return KEY.jws(HEAD | header, json.dumps(claims).encode())


def test_a_sound_token_gives_its_claims() -> None:
    assert verify(of(CLAIMS)) == AccessClaims(
        tenant="acme",
        sub="alice",
        scopes=frozenset({"runs:read", "runs:write"}),
        roles=frozenset({"approver"}),
        jti="t-1",
        issued_at=NOW - 5,
        expires_at=NOW + 600,
        issuer="https://issuer.example",
    )


def test_roles_jti_and_nbf_may_be_absent_and_other_claims_are_passed_over() -> None:
    few = {k: v for k, v in CLAIMS.items() if k not in {"roles", "jti", "nbf"}} | {"azp": [1]}
    claims = verify(of(few))
    assert isinstance(claims, AccessClaims)
    assert (claims.roles, claims.jti) == (frozenset(), None)


def test_an_audience_list_that_names_us_and_the_other_type_are_taken() -> None:
    assert isinstance(verify(of(CLAIMS | {"aud": ["other", "turngate"]})), AccessClaims)
    assert isinstance(verify(of(CLAIMS, typ="at+jwt")), AccessClaims)


def test_no_type_and_unknown_harmless_header_members_are_taken() -> None:
    head = {"alg": "ES256", "kid": "issuer-1", "x5t": "abc"}
    assert isinstance(verify(KEY.jws(head, compact(CLAIMS))), AccessClaims)


def test_an_issuer_may_sign_with_rs256() -> None:
    issuer = RsaSigner.of_bits(2048)
    token = issuer.jws(HEAD | {"alg": "RS256"}, compact(CLAIMS))
    assert isinstance(verify(token, key=RsaKey(issuer.private.public_key())), AccessClaims)


def test_an_unknown_key_is_named_so_that_the_key_set_can_be_read_again() -> None:
    assert verify(of(CLAIMS, kid="issuer-2")) == UnknownKey("no key has this kid", "issuer-2")


@pytest.mark.parametrize("typ", ["turngate-decision+jws", "JWE", "", "jwt"])
def test_a_token_of_another_type_is_refused(typ: str) -> None:
    assert isinstance(verify(of(CLAIMS, typ=typ)), Refused)


def test_a_token_over_8_kib_is_refused() -> None:
    assert isinstance(verify(of(CLAIMS | {"pad": "x" * 8192})), Refused)


def test_a_token_signed_by_another_key_is_refused() -> None:
    assert verify(Signer.of(8).jws(HEAD, compact(CLAIMS))) == Refused("the signature does not hold")


_CHANGES: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://evil.example"},
    "issuer no text": {"iss": ["https://issuer.example"]},
    "another audience": {"aud": "other"},
    "an empty audience": {"aud": []},
    "audience a number": {"aud": 1},
    "audience a list of numbers": {"aud": [1, "turngate"]},
    "no subject": {"sub": ""},
    "subject null": {"sub": None},
    "subject of 256": {"sub": "x" * 256},
    "subject with NUL": {"sub": "a\0b"},
    "subject half a character": {"sub": "\ud800"},
    "tenant no text": {"tid": 1},
    "no tenant": {"tid": ""},
    "scope a list": {"scope": ["runs:read"]},
    "roles text": {"roles": "approver"},
    "roles of numbers": {"roles": [1]},
    "jti a number": {"jti": 1},
    "exp text": {"exp": str(NOW + 600)},
    "exp true": {"exp": True},
    "exp a fraction": {"exp": NOW + 600.5},
    "exp beyond every year": {"exp": 253_402_300_800},
    "iat negative": {"iat": -1},
    "iat null": {"iat": None},
    "nbf text": {"nbf": "0"},
}


@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES.keys())
def test_a_claim_of_another_value_or_type_is_refused(change: dict[str, Any]) -> None:
    assert isinstance(verify(of(CLAIMS | change)), Refused)


@pytest.mark.parametrize(
    "change",
    [{"sub": "a"}, {"sub": "é" * 255}, {"tid": "t"}, {"exp": 253_402_300_799}, {"iat": 0}],
    ids=["one character", "255 characters", "a short tenant", "the last second", "long ago"],
)
def test_claims_on_their_bounds_are_taken(change: dict[str, Any]) -> None:
    assert isinstance(verify(of(CLAIMS | change)), AccessClaims)


@pytest.mark.parametrize("name", ["iss", "aud", "sub", "tid", "scope", "exp", "iat"])
def test_a_missing_claim_is_refused(name: str) -> None:
    token = of({k: v for k, v in CLAIMS.items() if k != name})
    assert verify(token) == Refused(f"/{name}: Field required")


@pytest.mark.parametrize(
    "payload",
    [b"[]", b"{", b"\xff", compact(CLAIMS)[:-1] + b',"sub":"mallory"}', b'{"a":' + b"[" * 5000],
    ids=["a list", "not JSON", "not UTF-8", "a claim twice", "too deep"],
)
def test_claims_that_are_no_plain_object_are_refused(payload: bytes) -> None:
    assert isinstance(verify(KEY.jws(HEAD, payload)), Refused)


@dataclass(frozen=True)
class Moment:
    id: str
    claims: dict[str, int]
    now: int
    accepted: bool


_MOMENTS = (
    Moment("a second before exp and leeway", {}, NOW + 629, True),
    Moment("exp and leeway", {}, NOW + 630, False),
    Moment("issued 30 s ahead", {"iat": NOW + 30}, NOW, True),
    Moment("issued 31 s ahead", {"iat": NOW + 31}, NOW, False),
    Moment("valid from 30 s ahead", {"nbf": NOW + 30}, NOW, True),
    Moment("valid from 31 s ahead", {"nbf": NOW + 31}, NOW, False),
)


@pytest.mark.parametrize("moment", _MOMENTS, ids=lambda moment: moment.id)
def test_times_hold_with_a_leeway_of_30_seconds(moment: Moment) -> None:
    claims = verify(of(CLAIMS | moment.claims), now=moment.now)
    assert isinstance(claims, AccessClaims) is moment.accepted


@given(st.binary(min_size=1, max_size=64))
def test_random_signed_bytes_are_refused_and_raise_nothing(payload: bytes) -> None:
    assert isinstance(verify(KEY.jws(HEAD, payload)), Refused)
