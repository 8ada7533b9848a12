"""F127: decisions made elsewhere, once, are judged today as they were then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.trust.decision import Malformed, read_decision, verify_decision
from app.trust.keys import P256Key, read_public_jwk
from app.trust.refusal import Refused

GOLDEN = Path(__file__).parents[1] / "golden" / "decision_vectors.json"
VECTORS = json.loads(GOLDEN.read_text())


def verdict(vector: dict[str, Any]) -> str:
    key = read_public_jwk(vector["public_jwk"])
    assert isinstance(key, P256Key)
    read = read_decision(vector["decision_jws"])
    if isinstance(read, Malformed):
        return "malformed"
    verified = verify_decision(read, key=key)
    if isinstance(verified, Refused):
        return "refused"
    assert verified.payload_bytes.decode() == VECTORS["payload"]
    return "verified"


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_f127_one_algorithm_and_one_encoding(vector: dict[str, Any]) -> None:
    """F127: ES256 with 64 bytes passes whoever made it; all else is malformed."""
    assert verdict(vector) == vector["verdict"]
