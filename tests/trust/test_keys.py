"""Keys: what parses is a key of a pinned kind and size, and all else is refused."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from hypothesis import given
from hypothesis import strategies as st

from app.trust.keys import (
    P256Key,
    RsaKey,
    SigningKey,
    derive_signing_key,
    read_key_set,
    read_public_jwk,
    read_signing_key,
)
from app.trust.refusal import Refused
from tests.trust.signer import RsaSigner, Signer, b64

KEY = Signer.of(7)
# The key of RFC 7515 A.3, whose thumbprint is fixed by RFC 7638's rule.
RFC_KEY: dict[str, Any] = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
RFC_THUMBPRINT = "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U"

_BAD_JWKS: dict[str, dict[str, object]] = {
    "a private member": RFC_KEY | {"d": "AA"},
    "an extra member": RFC_KEY | {"kid": "k"},
    "a missing member": {k: v for k, v in RFC_KEY.items() if k != "y"},
    "another type": RFC_KEY | {"kty": "RSA"},
    "another curve": RFC_KEY | {"crv": "P-384"},
    "x too short": RFC_KEY | {"x": b64(bytes(31))},
    "x too long": RFC_KEY | {"x": b64(bytes(33))},
    "y padded": RFC_KEY | {"y": RFC_KEY["y"] + "="},
    "x a number": RFC_KEY | {"x": 7},
    "off the curve": RFC_KEY | {"y": RFC_KEY["x"]},
    "the point at infinity": RFC_KEY | {"x": b64(bytes(32)), "y": b64(bytes(32))},
    "x beyond the field": RFC_KEY | {"x": b64(b"\xff" * 32)},
}


@pytest.fixture(scope="module")
def issuer() -> RsaSigner:
    return RsaSigner.of_bits(2048)


def test_keys_with_one_point_are_one_key() -> None:
    again = read_public_jwk({**RFC_KEY})
    assert {read_public_jwk(RFC_KEY), again} == {again}
    assert KEY.public != again


def test_a_public_jwk_is_read_and_written_back() -> None:
    key = read_public_jwk(RFC_KEY)
    assert isinstance(key, P256Key)
    assert key.jwk() == RFC_KEY
    assert key.thumbprint() == RFC_THUMBPRINT


@pytest.mark.parametrize("jwk", _BAD_JWKS.values(), ids=_BAD_JWKS.keys())
def test_any_other_jwk_is_refused(jwk: dict[str, object]) -> None:
    assert isinstance(read_public_jwk(jwk), Refused)


@pytest.mark.parametrize(("member", "secret"), [("x", 379), ("y", 43)])
def test_a_coordinate_keeps_its_leading_zero(member: str, secret: int) -> None:
    jwk = Signer.of(secret).jwk
    raw = urlsafe_b64decode(jwk[member] + "=")
    assert raw[0] == 0
    assert isinstance(read_public_jwk(jwk), P256Key)
    assert isinstance(read_public_jwk(jwk | {member: b64(raw[1:])}), Refused)


@given(st.dictionaries(st.sampled_from(["kty", "crv", "x", "y"]), st.text() | st.integers()))
def test_no_jwk_raises(jwk: dict[str, object]) -> None:
    assert isinstance(read_public_jwk(jwk), Refused)


def test_a_signing_key_depends_on_its_chance_alone_and_survives_its_file() -> None:
    key = derive_signing_key(bytes(39) + b"\x06")
    assert isinstance(key, SigningKey)
    # The remainder plus one: six gives the private number seven.
    assert key.public.jwk() == {k: KEY.jwk[k] for k in ("crv", "kty", "x", "y")}
    again = read_signing_key(key.pem())
    assert isinstance(again, SigningKey)
    assert again.public.jwk() == key.public.jwk()


def test_chance_wraps_around_below_the_order_of_the_curve() -> None:
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    for chance, secret in ((order - 1, 1), (order - 2, order - 1)):
        key = derive_signing_key(chance.to_bytes(40, "big"))
        assert key.public.thumbprint() == Signer.of(secret).public.thumbprint()


def test_the_wrong_amount_of_chance_is_a_broken_contract() -> None:
    with pytest.raises(ValueError, match="40 bytes"):
        derive_signing_key(bytes(32))


def _pem(key: Any, *, password: bytes | None = None) -> bytes:
    lock = serialization.BestAvailableEncryption(password) if password else None
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        lock or serialization.NoEncryption(),
    )
    return pem


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n",
        _pem(KEY.private, password=b"secret"),
        _pem(ec.derive_private_key(7, ec.SECP384R1())),
        _pem(ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))),
    ],
    ids=["empty", "no key inside", "encrypted", "P-384", "Ed25519"],
)
def test_only_a_plain_p256_pem_is_a_signing_key(pem: bytes) -> None:
    assert isinstance(read_signing_key(pem), Refused)


def test_a_key_set_gives_its_keys_by_id(issuer: RsaSigner) -> None:
    ours = {"kid": "a", **KEY.jwk}
    rsa = {"kid": "b", "use": "sig", "alg": "RS256", **issuer.jwk}
    found = read_key_set(json.dumps({"keys": [ours, rsa], "other": 1}).encode())
    assert isinstance(found, dict)
    assert {kid: type(key) for kid, key in found.items()} == {"a": P256Key, "b": RsaKey}


@pytest.mark.parametrize(
    "jwk",
    [
        "text",
        KEY.jwk,
        KEY.jwk | {"kid": 7},
        KEY.jwk | {"kid": "x", "use": "enc"},
        KEY.jwk | {"kid": "x", "d": "AA"},
        KEY.jwk | {"kid": "x", "alg": "ES384"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "x"},
        {"kty": "oct", "k": "AA", "kid": "x"},
        {"kty": "RSA", "n": b64(b"\xff" * 128), "e": "AQAB", "kid": "x"},
        {"kty": "RSA", "n": b64(b"\xff" * 2048), "e": "AQAB", "kid": "x"},
        {"kty": "RSA", "n": b64(b"\xff" * 256), "e": "AA", "kid": "x"},
        {"kty": "RSA", "kid": "x"},
    ],
    ids=[
        "no object",
        "no kid",
        "kid no text",
        "for encryption",
        "private",
        "another algorithm",
        "Ed25519",
        "a shared secret",
        "RSA of 1024 bits",
        "RSA of 16384 bits",
        "RSA without an exponent",
        "RSA without numbers",
    ],
)
def test_unusable_keys_of_a_set_are_passed_over(jwk: object) -> None:
    document = {"keys": [jwk, KEY.jwk | {"kid": "good"}]}
    found = read_key_set(json.dumps(document).encode())
    assert isinstance(found, dict)
    assert list(found) == ["good"]


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys":{}}',
        b'{"keys":[],"keys":[]}',
        json.dumps({"keys": [KEY.jwk | {"kid": "x"}, Signer.of(8).jwk | {"kid": "x"}]}).encode(),
    ],
    ids=["empty", "a list", "no keys", "keys no list", "keys twice", "one kid for two keys"],
)
def test_an_unsound_key_set_is_refused_whole(document: bytes) -> None:
    assert isinstance(read_key_set(document), Refused)
