"""docs/approving.md: its samples are run against the verifier of the house (F105)."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric import ec

from app.trust.decision import ReadDecision, VerifiedDecision, read_decision, verify_decision
from app.trust.key_proof import Enrolment, VerifiedStatement, verify_key_proof
from app.trust.keys import P256Key, read_public_jwk
from tests.docs.samples import program
from tests.trust.decisions import APPROVE, NOW

ARGS = '{"body":"{}","url":"http://127.0.0.1:9000/orders"}'
APPROVAL = {
    "id": "appr_1",
    "run_id": "run_1",
    "conversation_id": "conv_1",
    "tool": "http_post",
    "tool_definition_digest": "d" * 64,
    "args_canonical": ARGS,
    "args_sha256": sha256(ARGS.encode()).hexdigest(),
}
PAYLOAD = APPROVE | {"args_sha256": APPROVAL["args_sha256"]}
CANONICAL = rfc8785.dumps(PAYLOAD).decode()


@pytest.fixture(scope="module")
def doc() -> dict[str, Any]:
    """What the samples define."""
    return program("docs/approving.md")


@pytest.fixture(scope="module")
def key() -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(7, ec.SECP256R1())


def public(doc: dict[str, Any], key: ec.EllipticCurvePrivateKey) -> P256Key:
    """The key as the house reads it."""
    read = read_public_jwk(doc["public_jwk"](key))
    assert isinstance(read, P256Key)
    return read


def decided(doc: dict[str, Any], key: ec.EllipticCurvePrivateKey, **changed: Any) -> str:
    """The sample's decision on the approval, or on a forged one."""
    given = {"approval": APPROVAL, "canonical": CANONICAL, "choice": "approve"} | changed
    jws: str = doc["decision"](key, "key_1", **given)["decision_jws"]
    return jws


def test_the_proof_of_a_key_is_one_that_the_house_accepts(
    doc: dict[str, Any], key: ec.EllipticCurvePrivateKey
) -> None:
    body = doc["registration"](key, tenant="acme", sub="alice", label="laptop", now=NOW)
    known = public(doc, key)
    enrolment = Enrolment("acme", "alice", known.thumbprint())
    proof = verify_key_proof(body["proof_jws"], key=known, enrolment=enrolment, now=NOW)
    assert isinstance(proof, VerifiedStatement)
    assert body["public_jwk"] == known.jwk()


def test_a_decision_is_one_that_the_house_accepts(
    doc: dict[str, Any], key: ec.EllipticCurvePrivateKey
) -> None:
    """F3: the happy path survives signing."""
    read = read_decision(decided(doc, key))
    assert isinstance(read, ReadDecision)
    assert isinstance(verify_decision(read, key=public(doc, key)), VerifiedDecision)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("approval_id", "appr_2"),
        ("run_id", "run_2"),
        ("conversation_id", "conv_2"),
        ("tool", "files_delete"),
        ("tool_definition_digest", "e" * 64),
        ("args_sha256", "b" * 64),
        ("decision", "deny"),
    ],
)
def test_f105_nothing_is_signed_that_was_not_shown(
    doc: dict[str, Any], key: ec.EllipticCurvePrivateKey, field: str, value: str
) -> None:
    forged = rfc8785.dumps(PAYLOAD | {field: value}).decode()
    with pytest.raises(ValueError, match=r"not what was shown|another"):
        decided(doc, key, canonical=forged)


def test_f105_a_card_whose_digest_is_of_other_arguments_is_not_signed(
    doc: dict[str, Any], key: ec.EllipticCurvePrivateKey
) -> None:
    shown = APPROVAL | {"args_canonical": ARGS.replace("orders", "refunds")}
    with pytest.raises(ValueError, match="digest"):
        decided(doc, key, approval=shown)


def test_f105_a_text_with_a_second_reading_is_not_signed(
    doc: dict[str, Any], key: ec.EllipticCurvePrivateKey
) -> None:
    twice = CANONICAL[:-1] + ',"tool":"http_post"}'
    with pytest.raises(ValueError, match="not canonical"):
        decided(doc, key, canonical=twice)


def test_the_check_of_a_signature_accepts_a_good_one(
    doc: dict[str, Any], key: ec.EllipticCurvePrivateKey
) -> None:
    jwk = doc["public_jwk"](key)
    assert doc["signed_payload"](decided(doc, key), key_id="key_1", jwk=jwk) == PAYLOAD


def forged(jws: str, doc: dict[str, Any]) -> dict[str, str]:
    """Forms of a good signature that must all be refused."""
    head, body, signature = jws.split(".")
    b64u = doc["b64u"]
    other = b64u(rfc8785.dumps(PAYLOAD | {"decision": "deny"}))
    none = b64u(
        json.dumps({"alg": "none", "kid": "key_1", "typ": "turngate-decision+jws"}).encode()
    )
    stranger = doc["sign"](
        ec.derive_private_key(8, ec.SECP256R1()),
        CANONICAL.encode(),
        kid="key_1",
        typ="turngate-decision+jws",
    )
    return {
        "another payload": f"{head}.{other}.{signature}",
        "no algorithm": f"{none}.{body}.",
        "no signature": f"{head}.{body}.",
        "zeros": f"{head}.{body}.{b64u(bytes(64))}",
        "half": f"{head}.{body}.{signature[:43]}",
        "padded": f"{head}.{body}.{signature}==",
        "another key": stranger,
        "two parts": f"{head}.{body}",
    }


@pytest.mark.parametrize("name", list(forged("a.b.c", program("docs/approving.md"))))
def test_f105_the_check_of_a_signature_refuses_a_forged_one(
    doc: dict[str, Any], key: ec.EllipticCurvePrivateKey, name: str
) -> None:
    jws = forged(decided(doc, key), doc)[name]
    with pytest.raises(ValueError, match=r"."):
        doc["signed_payload"](jws, key_id="key_1", jwk=doc["public_jwk"](key))
