"""What forgers try against an issuer that signs with RSA: its key is long, public, and no secret.

The issuer's RSA key is registered beside its P-256 key, so that either can be named for the other.
"""

from __future__ import annotations

import hmac
import json
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from jose import jws

from app.trust import base64url
from app.trust.access_token import AccessClaims, verify_access_token
from app.trust.keys import RsaKey
from app.trust.refusal import Refused
from tests.trust.signer import RsaSigner, Signer, b64, join, signing_input
from tests.trust.test_hostile_tokens import CLAIMS, NOW, OTHER_TENANT, PAYLOAD

RSA, OTHER, EC = RsaSigner.of_bits(2048), RsaSigner.of_bits(2048), Signer.of(7)
HEAD: Final[dict[str, Any]] = {"alg": "RS256", "kid": "issuer-rsa", "typ": "JWT"}
EC_HEAD: Final[dict[str, Any]] = {"alg": "ES256", "kid": "issuer-ec", "typ": "JWT"}
GOOD = RSA.jws(HEAD, PAYLOAD)
HEAD_PART, PAYLOAD_PART, SIGNATURE_PART = GOOD.split(".")
RSA_SIGNATURE = base64url.decode(SIGNATURE_PART) or b""
MODULUS = RSA.private.public_key().public_numbers().n


def verify(text: str) -> AccessClaims | Refused:
    return verify_access_token(
        text,
        keys={"issuer-rsa": RsaKey(RSA.private.public_key()), "issuer-ec": EC.public},
        issuer=CLAIMS["iss"],
        audience=CLAIMS["aud"],
        now=NOW,
    )


def public(encoding: serialization.Encoding) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return RSA.private.public_key().public_bytes(encoding, form)


PUBLIC: Final = {
    "PEM": public(serialization.Encoding.PEM),
    "PEM without its line break": public(serialization.Encoding.PEM).rstrip(),
    "DER": public(serialization.Encoding.DER),
    "JWK": json.dumps(RSA.jwk).encode(),
}
DIGESTS: Final = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}


def keyed_with(secret: bytes, bits: str, *, alg: str) -> str:
    """A token whose MAC is sound if the public key were a secret."""
    head = HEAD | {"alg": alg}
    return join(head, PAYLOAD, hmac.digest(secret, signing_input(head, PAYLOAD), f"sha{bits}"))


def signed(alg: str, bits: str, *, pss: bool = False, name: str | None = None) -> str:
    """A token that the issuer's own key signs as `alg` says, under the name `name`."""
    head, digest = HEAD | {"alg": name or alg}, DIGESTS[bits]
    pad = padding.PSS(padding.MGF1(digest), digest.digest_size) if pss else padding.PKCS1v15()
    return join(head, PAYLOAD, RSA.private.sign(signing_input(head, PAYLOAD), pad, digest))


def with_signature(value: int, size: int = 256) -> str:
    return join(HEAD, PAYLOAD, value.to_bytes(size, "big"))


def under(head: dict[str, Any]) -> str:
    return join(head, PAYLOAD, EC.raw(signing_input(head, PAYLOAD)))


NO_ALGORITHM_OF_OURS: Final = {
    **{
        f"HS{bits} keyed with the {form}": keyed_with(secret, bits, alg=f"HS{bits}")
        for form, secret in PUBLIC.items()
        for bits in DIGESTS
    },
    **{f"RS{bits}, rightly signed": signed(f"RS{bits}", bits) for bits in ("384", "512")},
    **{f"PS{bits}, rightly signed": signed(f"PS{bits}", bits, pss=True) for bits in DIGESTS},
    "RS256 in small letters": signed("RS256", "256", name="rs256"),
}
ANOTHER_KIND: Final = {
    "the RSA key's signature named ES256": (signed("RS256", "256", name="ES256"), "RS256"),
    "the EC key's signature named ES256": (under(HEAD | {"alg": "ES256"}), "RS256"),
    "the EC key's signature named RS256": (under(EC_HEAD | {"alg": "RS256"}), "ES256"),
    "the RSA key's signature under the EC key's kid": (
        RSA.jws(HEAD | {"kid": "issuer-ec"}, PAYLOAD),
        "ES256",
    ),
}
FORGED: Final = {
    **{
        f"a MAC keyed with the {form}": keyed_with(secret, "256", alg="RS256")
        for form, secret in PUBLIC.items()
    },
    "RS384": signed("RS384", "384", name="RS256"),
    "RS512": signed("RS512", "512", name="RS256"),
    "PS256": signed("PS256", "256", pss=True, name="RS256"),
    "PS384": signed("PS384", "384", pss=True, name="RS256"),
    "PS512": signed("PS512", "512", pss=True, name="RS256"),
    "the EC key's": under(HEAD),
    "another RSA key's": OTHER.jws(HEAD, PAYLOAD),
    "another tenant's": f"{HEAD_PART}.{b64(OTHER_TENANT)}.{SIGNATURE_PART}",
    "zero": with_signature(0),
    "one": with_signature(1),
    "the modulus": with_signature(MODULUS),
    "a byte behind": f"{HEAD_PART}.{PAYLOAD_PART}.{b64(RSA_SIGNATURE + bytes(1))}",
    "a zero before": with_signature(int.from_bytes(RSA_SIGNATURE, "big"), 257),
}


def test_the_token_that_all_of_these_bend_is_sound() -> None:
    assert isinstance(verify(GOOD), AccessClaims)
    assert isinstance(verify(under(EC_HEAD)), AccessClaims)


@pytest.mark.parametrize("text", NO_ALGORITHM_OF_OURS.values(), ids=NO_ALGORITHM_OF_OURS)
def test_f125_an_rsa_key_is_no_secret_and_serves_no_other_algorithm(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jws, "verify", lambda *_, **__: PAYLOAD)
    assert verify(text) == Refused("alg must be ES256 or RS256")


@pytest.mark.parametrize(("text", "own"), ANOTHER_KIND.values(), ids=ANOTHER_KIND)
def test_f125_an_algorithm_of_the_other_kind_of_key_is_refused_before_the_library(
    text: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jws, "verify", lambda *_, **__: PAYLOAD)
    assert verify(text) == Refused(f"the key of this kid serves {own} alone")


@pytest.mark.parametrize("text", FORGED.values(), ids=FORGED)
def test_f125_what_is_named_rs256_and_is_none_does_not_hold(text: str) -> None:
    assert verify(text) == Refused("the signature does not hold")
