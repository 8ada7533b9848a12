"""Seals: the service's own word for a stretch of a log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.trust.keys import derive_signing_key
from app.trust.refusal import Refused
from app.trust.seal import Seal, sign_seal, verify_seal
from tests.trust.signer import Signer, b64, compact

SEAL = Seal("conv_1", from_seq=1, through_seq=9, count=9, root="a" * 64)
SERVICE = derive_signing_key(bytes(39) + b"\x06")
# The same private number, held by `cryptography` alone.
TWIN = Signer.of(7)
SIGNATURE = sign_seal(SEAL, key=SERVICE, kid="seal-1")


def refusal(
    seal: Seal = SEAL, *, signature: str = SIGNATURE, kid: str = "seal-1", secret: int = 7
) -> Refused | None:
    keys = {"seal-1": Signer.of(secret).public}
    return verify_seal(seal, signature=signature, kid=kid, keys=keys)


def test_a_seal_holds_for_exactly_what_was_sealed() -> None:
    assert refusal() is None


def test_a_seal_is_a_jws_over_the_canonical_statement() -> None:
    header = {"alg": "ES256", "kid": "seal-1", "typ": "turngate-seal+jws"}
    statement = {
        "typ": "turngate.seal",
        "conversation_id": "conv_1",
        "from_seq": 1,
        "through_seq": 9,
        "count": 9,
        "root": "a" * 64,
    }
    text = TWIN.jws(header, compact(statement))
    assert refusal(signature=text.rpartition(".")[2]) is None


@pytest.mark.parametrize(
    "seal",
    [
        replace(SEAL, conversation_id="conv_2"),
        replace(SEAL, from_seq=2),
        replace(SEAL, through_seq=8),
        replace(SEAL, count=8),
        replace(SEAL, root="b" * 64),
        replace(SEAL, count=2**63),
    ],
    ids=["conversation", "from", "through", "count", "root", "no canonical form"],
)
def test_any_one_altered_field_fails(seal: Seal) -> None:
    assert isinstance(refusal(seal), Refused)


def test_another_key_or_key_id_fails() -> None:
    assert isinstance(refusal(secret=8), Refused)
    assert isinstance(refusal(kid="seal-2"), Refused)


@pytest.mark.parametrize(
    "signature",
    ["", b64(bytes(63)), b64(bytes(64)), SIGNATURE + "=", f"{SIGNATURE}.{SIGNATURE}", "ä"],
    ids=["empty", "short", "zero", "padded", "more parts", "not ASCII"],
)
def test_a_signature_of_another_form_fails(signature: str) -> None:
    assert isinstance(refusal(signature=signature), Refused)


@given(st.text(max_size=90), st.text(max_size=10))
def test_random_text_fails_and_raises_nothing(signature: str, kid: str) -> None:
    assert isinstance(refusal(signature=signature, kid=kid), Refused)
