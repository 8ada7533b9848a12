"""The fence around python-jose: form and header before the library, one refusal after it."""

from __future__ import annotations

import hmac
import json
import tracemalloc
import zlib
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from jose import jws

from app.trust import base64url
from app.trust.jose import CompactJws, read_jws, read_signed, sign_jws, verify_jws
from app.trust.keys import PublicKey, RsaKey, derive_signing_key
from app.trust.refusal import Refused
from tests.trust.signer import RsaSigner, Signer, b64, compact, join, signing_input

LIMIT = 64 * 1024
KEY = Signer.of(7)
HEAD: dict[str, Any] = {"alg": "ES256", "kid": "key_1", "typ": "JWT"}
PAYLOAD = b'{"n":1}'
GOOD = KEY.jws(HEAD, PAYLOAD)
HEAD_PART, PAYLOAD_PART, SIGNATURE_PART = GOOD.split(".")


def check(text: str, key: PublicKey = KEY.public) -> bytes | Refused:
    token = read_jws(text, max_bytes=LIMIT)
    return token if isinstance(token, Refused) else verify_jws(token, key=key)


def refused_before_the_library(text: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether `text` is refused although the library, if asked, would take anything."""
    monkeypatch.setattr(jws, "verify", lambda *_, **__: b"believed")
    return isinstance(check(text), Refused)


def test_a_sound_token_gives_its_header_and_its_verified_payload() -> None:
    token = read_jws(GOOD, max_bytes=LIMIT)
    assert isinstance(token, CompactJws)
    assert (token.header.alg, token.header.kid, token.header.typ) == ("ES256", "key_1", "JWT")
    assert token.header.members == {"alg", "kid", "typ"}
    assert verify_jws(token, key=KEY.public) == PAYLOAD


def test_what_is_signed_here_is_exactly_the_payload_under_exactly_three_members() -> None:
    key = derive_signing_key(bytes(40))
    text = sign_jws(b'{ "b":1, "a":2 }', key=key, kid="k", typ="turngate-seal+jws")
    head, payload, signature = (base64url.decode(part) for part in text.split("."))
    assert json.loads(head or b"") == {"alg": "ES256", "kid": "k", "typ": "turngate-seal+jws"}
    assert payload == b'{ "b":1, "a":2 }'
    assert len(signature or b"") == 64
    assert check(text, key.public) == payload


def test_an_rsa_key_serves_rs256_alone() -> None:
    issuer = RsaSigner.of_bits(2048)
    key = RsaKey(issuer.private.public_key())
    assert check(issuer.jws(HEAD | {"alg": "RS256"}, PAYLOAD), key) == PAYLOAD
    assert isinstance(check(issuer.jws(HEAD | {"alg": "ES256"}, PAYLOAD), key), Refused)
    assert isinstance(check(GOOD, key), Refused)
    forged = join(HEAD | {"alg": "RS256"}, PAYLOAD, bytes(256))
    assert isinstance(check(forged, key), Refused)


def _signed(text: str) -> CompactJws | Refused:
    return read_signed(text, typ="JWT", max_bytes=LIMIT)


def test_what_is_signed_by_people_has_exactly_three_header_members() -> None:
    assert isinstance(_signed(GOOD), CompactJws)
    for head in (HEAD | {"cty": "json"}, {k: v for k, v in HEAD.items() if k != "typ"}):
        refusal = _signed(KEY.jws(head, PAYLOAD))
        assert refusal == Refused("the header must have exactly alg, typ and kid")


@pytest.mark.parametrize("alg", ["RS256", "ES384", "EdDSA"])
def test_an_algorithm_is_told_what_is_taken_there(alg: str) -> None:
    text = KEY.jws(HEAD | {"alg": alg}, PAYLOAD)
    assert _signed(text) == Refused("alg must be ES256")
    if alg != "RS256":
        assert read_jws(text, max_bytes=LIMIT) == Refused("alg must be ES256 or RS256")


def test_what_is_signed_by_people_is_of_one_type() -> None:
    assert _signed(KEY.jws(HEAD | {"typ": "JWS"}, PAYLOAD)) == Refused("typ must be JWT")


@pytest.mark.parametrize("size", [63, 65])
def test_what_is_signed_by_people_has_a_signature_of_64_bytes(size: int) -> None:
    refusal = _signed(join(HEAD, PAYLOAD, bytes(size)))
    assert refusal == Refused("the signature must be 64 bytes, r then s")


def test_a_refused_form_stays_refused() -> None:
    assert _signed("a.b") == Refused("the token must have exactly three parts")


_SHAPES = {
    "empty": "",
    "one part": HEAD_PART,
    "two parts": f"{HEAD_PART}.{PAYLOAD_PART}",
    "four parts": f"{GOOD}.{SIGNATURE_PART}",
    "five parts": f"{GOOD}.{SIGNATURE_PART}.{SIGNATURE_PART}",
    "no header": f".{PAYLOAD_PART}.{SIGNATURE_PART}",
    "no payload": f"{HEAD_PART}..{SIGNATURE_PART}",
    "no signature": f"{HEAD_PART}.{PAYLOAD_PART}.",
    "not ASCII": "ä.ö.ü",
    "fullwidth digits": f"{HEAD_PART}.{PAYLOAD_PART}.\uff11\uff12",
}


@pytest.mark.parametrize("text", _SHAPES.values(), ids=_SHAPES.keys())
def test_a_token_of_another_shape_is_refused_before_the_library(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused_before_the_library(text, monkeypatch)


def test_a_token_over_its_limit_is_refused_unread() -> None:
    assert isinstance(read_jws(GOOD, max_bytes=len(GOOD)), CompactJws)
    assert isinstance(read_jws(GOOD, max_bytes=len(GOOD) - 1), Refused)


def test_f124_a_compressed_token_of_five_parts_is_refused_by_its_shape() -> None:
    """F124: nothing is decoded or unpacked, and memory stays flat."""
    bomb = zlib.compress(bytes(64 * 1024 * 1024), 9)
    head = b64(b'{"alg":"dir","enc":"A256GCM","zip":"DEF","kid":"key_1"}')
    text = f"{head}..{b64(bytes(12))}.{b64(bomb)}.{b64(bytes(16))}"
    tracemalloc.start()
    refusal = read_jws(text, max_bytes=len(text))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refusal == Refused("the token must have exactly three parts")
    assert peak < 1024 * 1024


def _keyed_with(secret: bytes) -> str:
    head = HEAD | {"alg": "HS256"}
    return join(head, PAYLOAD, hmac.new(secret, signing_input(head, PAYLOAD), sha256).digest())


def _public(encoding: serialization.Encoding) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return KEY.private.public_key().public_bytes(encoding, form)


_CONFUSIONS = {
    "HS256 with the PEM": _keyed_with(_public(serialization.Encoding.PEM)),
    "HS256 with the DER": _keyed_with(_public(serialization.Encoding.DER)),
    "HS256 with the JWK": _keyed_with(json.dumps(KEY.jwk).encode()),
    "none": join(HEAD | {"alg": "none"}, PAYLOAD, b"x"),
    "no algorithm": KEY.jws({"kid": "key_1"}, PAYLOAD),
    "lower case": KEY.jws(HEAD | {"alg": "es256"}, PAYLOAD),
    "a list of algorithms": KEY.jws(HEAD | {"alg": ["ES256"]}, PAYLOAD),
    "unknown crit": KEY.jws(HEAD | {"crit": ["exp"], "exp": 1}, PAYLOAD),
    "b64 false": KEY.jws(HEAD | {"b64": False}, PAYLOAD),
    "jwk": KEY.jws(HEAD | {"jwk": KEY.jwk}, PAYLOAD),
    "jku": KEY.jws(HEAD | {"jku": "http://127.0.0.1:9/keys"}, PAYLOAD),
    "x5u": KEY.jws(HEAD | {"x5u": "http://127.0.0.1:9/x"}, PAYLOAD),
    "x5c": KEY.jws(HEAD | {"x5c": []}, PAYLOAD),
    "the label RS256": KEY.jws(HEAD | {"alg": "RS256"}, PAYLOAD),
    "ES384": Signer.of(7, ec.SECP384R1()).jws(HEAD | {"alg": "ES384"}, PAYLOAD),
    "no kid": KEY.jws({"alg": "ES256"}, PAYLOAD),
    "kid no text": KEY.jws(HEAD | {"kid": 1}, PAYLOAD),
    "typ no text": KEY.jws(HEAD | {"typ": 1}, PAYLOAD),
}


@pytest.mark.parametrize("text", _CONFUSIONS.values(), ids=_CONFUSIONS.keys())
def test_f125_confusion_about_the_key_is_refused_before_the_library(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F125: no header brings a key, points to one, or chooses what a key is used for."""
    assert refused_before_the_library(text, monkeypatch)


def test_f125_a_kid_that_names_another_registered_key_is_refused_by_the_signature() -> None:
    """F125: the one key of that `kid` is tried, and no other."""
    assert check(GOOD, Signer.of(8).public) == Refused("the signature does not hold")


def test_f125_a_p384_key_under_the_name_es256_is_refused() -> None:
    """F125: its signature has another length, and no such key is ever registered."""
    text = Signer.of(7, ec.SECP384R1()).jws(HEAD, PAYLOAD)
    assert check(text) == Refused("the signature does not hold")


_HEAD_TEXT = compact(HEAD)
_TWO_MEANINGS = {
    "alg twice": KEY.jws(_HEAD_TEXT[:-1] + b',"alg":"ES256"}', PAYLOAD),
    "alg none first": KEY.jws(b'{"alg":"none",' + _HEAD_TEXT[1:], PAYLOAD),
    "kid twice": KEY.jws(b'{"kid":"key_2",' + _HEAD_TEXT[1:], PAYLOAD),
    "an escaped second alg": KEY.jws(b'{"\\u0061lg":"none",' + _HEAD_TEXT[1:], PAYLOAD),
    "8 KiB and one byte": KEY.jws(_HEAD_TEXT[:-1].ljust(8192) + b"}", PAYLOAD),
    "a list": KEY.jws(b"[]", PAYLOAD),
    "not JSON": KEY.jws(b"{", PAYLOAD),
    "not UTF-8": KEY.jws(b'{"\xff":1,' + _HEAD_TEXT[1:], PAYLOAD),
    "padded header": f"{HEAD_PART}==.{PAYLOAD_PART}.{SIGNATURE_PART}",
    "padded signature": f"{GOOD}==",
    "line break": f"{HEAD_PART}.{PAYLOAD_PART[:4]}\n{PAYLOAD_PART[4:]}.{SIGNATURE_PART}",
    "trailing bits": GOOD[:-1] + chr(ord(GOOD[-1]) + 1),
}


@pytest.mark.parametrize("text", _TWO_MEANINGS.values(), ids=_TWO_MEANINGS.keys())
def test_f126_a_header_that_says_two_things_is_refused_before_the_library(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F126: a header and a segment have one reading."""
    assert refused_before_the_library(text, monkeypatch)


def test_f126_a_header_of_8_kib_is_read() -> None:
    """F126: the bound itself is inside."""
    assert check(KEY.jws(_HEAD_TEXT[:-1].ljust(8191) + b"}", PAYLOAD)) == PAYLOAD


@pytest.mark.parametrize(
    "signature",
    [
        bytes(64),
        b"\xff" * 64,
        KEY.raw(signing_input(HEAD, PAYLOAD))[:-1],
        KEY.raw(signing_input(HEAD, PAYLOAD)) + b"\0",
        KEY.der(signing_input(HEAD, PAYLOAD)),
        KEY.raw(signing_input(HEAD, PAYLOAD + b" ")),
    ],
    ids=["zero", "all ones", "short", "long", "DER", "of other bytes"],
)
def test_f127_only_64_bytes_r_then_s_over_these_bytes_hold(signature: bytes) -> None:
    """F127: one encoding of one algorithm."""
    assert check(join(HEAD, PAYLOAD, signature)) == Refused("the signature does not hold")


@given(st.text(max_size=80))
def test_t67_random_text_is_not_verified_and_raises_nothing(text: str) -> None:
    assert isinstance(check(text), Refused)


@given(st.binary(min_size=1), st.binary(min_size=1), st.binary(min_size=1))
def test_t67_random_parts_are_not_verified_and_raise_nothing(
    head: bytes, payload: bytes, signature: bytes
) -> None:
    assert isinstance(check(join(head, payload, signature)), Refused)
    assert isinstance(check(join(HEAD, payload, signature)), Refused)


@given(st.integers(0, len(GOOD) - 1), st.characters(codec="utf-8"))
def test_one_changed_character_anywhere_is_refused(place: int, character: str) -> None:
    text = GOOD[:place] + character + GOOD[place + 1 :]
    assert text == GOOD or isinstance(check(text), Refused)
