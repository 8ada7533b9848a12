"""Tokens that forgers try, as one table: each is refused, and most before the library sees it.

The forger has everything that is public, and a token that was sound; what is signed with the
issuer's own key here shows that the form alone is enough to refuse.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jose import jws
from jose.constants import ALGORITHMS

from app.trust.access_token import AccessClaims, verify_access_token
from app.trust.jose import read_signed
from app.trust.refusal import Refused, UnknownKey
from tests.trust.signer import Signer, b64, compact, join, signing_input

NOW: Final = 1_800_000_000
ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
ISSUER, APPROVER = Signer.of(7), Signer.of(8)
HEAD: dict[str, Any] = {"alg": "ES256", "kid": "issuer-1", "typ": "JWT"}
CLAIMS: dict[str, Any] = {
    "iss": "https://issuer.example",
    "aud": "turngate",
    "sub": "alice",
    "tid": "acme",
    "scope": "runs:read",
    "iat": NOW - 5,
    "exp": NOW + 600,
}
PAYLOAD = compact(CLAIMS)
OTHER_TENANT = compact(CLAIMS | {"tid": "rival"})
GOOD = ISSUER.jws(HEAD, PAYLOAD)
HEAD_PART, PAYLOAD_PART, SIGNATURE_PART = GOOD.split(".")
PEM = ISSUER.private.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
SIGNED_TYPES = (
    "turngate-decision+jws",
    "turngate-key-proof+jws",
    "turngate-key-endorsement+jws",
    "turngate-seal+jws",
    "turngate-dispatch-mutation+jws",
    "turngate-question-answer+jws",
    "turngate-passkey-challenge+jws",
    "turngate-grant-suspension+jws",
)


def verify(text: str) -> AccessClaims | Refused:
    return verify_access_token(
        text,
        keys={"issuer-1": ISSUER.public},
        issuer="https://issuer.example",
        audience="turngate",
        now=NOW,
    )


def under(**header: Any) -> str:
    return ISSUER.jws(HEAD | header, PAYLOAD)


def raw_head(head: bytes) -> str:
    return ISSUER.jws(head, PAYLOAD)


def signed(r: int, s: int, size: int = 32) -> str:
    return join(HEAD, PAYLOAD, r.to_bytes(size, "big") + s.to_bytes(size, "big"))


def halves() -> tuple[int, int]:
    raw = ISSUER.raw(signing_input(HEAD, PAYLOAD))
    return int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")


def keyed_with(secret: bytes) -> str:
    head = HEAD | {"alg": "HS256"}
    return join(head, PAYLOAD, hmac.new(secret, signing_input(head, PAYLOAD), sha256).digest())


NO_ALGORITHMS: tuple[Any, ...] = ("none", "None", "nOnE", "", "es256", None, [])

FORM: dict[str, str] = {
    **{f"alg {alg}": under(alg=alg) for alg in sorted(ALGORITHMS.SUPPORTED - {"ES256"})},
    **{f"alg {alg!r}": under(alg=alg) for alg in NO_ALGORITHMS},
    "alg none, unsigned": join(HEAD | {"alg": "none"}, PAYLOAD, b""),
    "alg in a list": under(alg=["ES256"]),
    "the public key as a secret": keyed_with(PEM),
    "no alg": raw_head(b'{"kid":"issuer-1","typ":"JWT"}'),
    "no kid": raw_head(b'{"alg":"ES256","typ":"JWT"}'),
    "alg twice": raw_head(b'{"alg":"none","alg":"ES256","kid":"issuer-1"}'),
    "alg twice, once escaped": raw_head(b'{"\\u0061lg":"none","alg":"ES256","kid":"issuer-1"}'),
    "kid twice": raw_head(b'{"alg":"ES256","kid":"mine","kid":"issuer-1"}'),
    "an embedded key": under(jwk=APPROVER.jwk),
    "a key's address": under(jku="https://evil.example/jwks.json"),
    "a certificate": under(x5c=["MIIB"]),
    "a certificate's address": under(x5u="https://evil.example/cert.pem"),
    "critical members": under(crit=["exp"], exp=NOW + 9),
    "no critical members": under(crit=[]),
    "an unencoded payload": under(b64=False, crit=["b64"]),
    "a kid of another type": under(kid=1),
    "a type of another type": under(typ=["JWT"]),
    "a header that is a list": raw_head(b"[]"),
    "a header with NaN": raw_head(b'{"alg":"ES256","kid":"issuer-1","n":NaN}'),
    "a deep header": raw_head(
        b'{"alg":"ES256","kid":"issuer-1","n":' + b"[" * 3000 + b"]" * 3000 + b"}"
    ),
    "over 8 KiB": ISSUER.jws(HEAD, compact(CLAIMS | {"pad": "x" * 8192})),
    "five parts": GOOD + ".e30.e30",
    "two parts": f"{HEAD_PART}.{PAYLOAD_PART}",
    "an empty signature": f"{HEAD_PART}.{PAYLOAD_PART}.",
    "the other serialization": '{"payload":"e30","signatures":[]}',
    "padding": GOOD + "==",
    "a blank behind": GOOD + " ",
    "a line break within": f"{HEAD_PART}.{PAYLOAD_PART}\n.{SIGNATURE_PART}",
    "the other alphabet": f"{HEAD_PART}.{PAYLOAD_PART}.+/{SIGNATURE_PART[2:]}",
    "trailing bits": f"{HEAD_PART}.{PAYLOAD_PART}.{SIGNATURE_PART[:-1]}"
    + chr(ord(SIGNATURE_PART[-1]) + 1),
    "a look-alike letter": GOOD.replace("e", "\u0435", 1),
    **{f"the type {typ}": under(typ=typ) for typ in SIGNED_TYPES},
    "an unknown kid": under(kid="issuer-2"),
    "a kid that is a path": under(kid="../../../../dev/null"),
    "a kid that is SQL": under(kid="issuer-1' OR '1'='1"),
    "a kid with NUL": under(kid="issuer-1\0"),
    "the approver's kid": APPROVER.jws(HEAD | {"kid": "key_1"}, PAYLOAD),
}
R, S = halves()
SIGNATURE: dict[str, str] = {
    "DER": join(HEAD, PAYLOAD, ISSUER.der(signing_input(HEAD, PAYLOAD))),
    "zeros": signed(0, 0),
    "r of zero": signed(0, S),
    "s of zero": signed(R, 0),
    "the order": signed(ORDER, ORDER),
    "r and s exchanged": signed(S, R),
    "padded halves": signed(R, S, 33),
    "a byte behind": join(HEAD, PAYLOAD, ISSUER.raw(signing_input(HEAD, PAYLOAD)) + b"\0"),
    "half of it": join(HEAD, PAYLOAD, R.to_bytes(32, "big")),
    "another person's": APPROVER.jws(HEAD, PAYLOAD),
    "a P-384 key's": Signer.of(7, ec.SECP384R1()).jws(HEAD, PAYLOAD),
    "a secp256k1 key's": Signer.of(7, ec.SECP256K1()).jws(HEAD, PAYLOAD),
    "another payload's": f"{HEAD_PART}.{b64(compact(CLAIMS | {'sub': 'bob'}))}.{SIGNATURE_PART}",
    "another tenant's": f"{HEAD_PART}.{b64(OTHER_TENANT)}.{SIGNATURE_PART}",
    "a token within the token": ISSUER.jws(HEAD | {"cty": "JWT"}, GOOD.encode()),
}


def test_the_token_that_all_of_these_bend_is_sound() -> None:
    assert isinstance(verify(GOOD), AccessClaims)


@pytest.mark.parametrize("text", FORM.values(), ids=FORM)
def test_f125_a_forged_form_is_refused_before_the_library(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jws, "verify", lambda *_, **__: PAYLOAD)
    assert isinstance(verify(text), Refused)


@pytest.mark.parametrize("text", SIGNATURE.values(), ids=SIGNATURE)
def test_f127_a_forged_signature_is_refused(text: str) -> None:
    refused = verify(text)
    assert isinstance(refused, Refused)
    assert not isinstance(refused, UnknownKey)


def test_a_signature_of_the_other_half_says_the_same_and_nothing_else() -> None:
    # (r, n - s) holds as well. So no text of a token, nor of a decision, is ever its identity.
    assert verify(signed(R, ORDER - S)) == verify(GOOD)


@pytest.mark.parametrize("typ", SIGNED_TYPES)
def test_t68_what_was_signed_for_one_purpose_serves_no_other(typ: str) -> None:
    own = APPROVER.jws({"alg": "ES256", "kid": "key_1", "typ": typ}, PAYLOAD)
    taken = {
        other
        for other in SIGNED_TYPES
        if not isinstance(read_signed(own, typ=other, max_bytes=8192), Refused)
    }
    assert taken == {typ}
    assert isinstance(read_signed(GOOD, typ=typ, max_bytes=8192), Refused)


@pytest.mark.parametrize(
    "payload", [PAYLOAD[:-1] + b',"tid":"rival"}', PAYLOAD[:-1] + b',"t\\u0069d":"rival"}']
)
def test_no_issuer_can_say_two_tenants_at_once(payload: bytes) -> None:
    refused = verify(ISSUER.jws(HEAD, payload))
    assert refused == Refused("expected one JSON object with no member twice")


def test_the_tenant_is_the_signed_one_whatever_else_a_token_names() -> None:
    named = {"tenant": "acme", "tenant_id": "acme", "TID": "acme"}
    theirs = verify(ISSUER.jws(HEAD | named, compact(CLAIMS | named | {"tid": "rival"})))
    assert isinstance(theirs, AccessClaims)
    assert (theirs.tenant, theirs.sub) == ("rival", "alice")
