"""What is read back from the signed bytes of a decision."""

from __future__ import annotations

import hashlib

import pytest

from app.log.private import BrokenEvidence, SignedDecision
from tests.trust.decisions import APPROVE, DENY, signed
from tests.trust.signer import compact

EDITED = APPROVE | {
    "override_args": '{"body":"1"}',
    "note": "mind the gap",
    "reason": "checked",
    "sandbox_mode": "relaxed",
}


def test_what_the_event_leaves_out_is_read_from_the_signed_bytes() -> None:
    evidence = signed(EDITED).encode()
    assert SignedDecision.decode(evidence) == SignedDecision(
        signed=evidence,
        payload_sha256=hashlib.sha256(compact(EDITED)).hexdigest(),
        override_args='{"body":"1"}',
        note="mind the gap",
        reason="checked",
        sandbox_mode="relaxed",
    )


def test_a_plain_decision_has_nothing_beside_its_verdict() -> None:
    decided = SignedDecision.decode(signed(DENY).encode())
    assert (decided.override_args, decided.note, decided.reason, decided.sandbox_mode) == (
        None,
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    "evidence",
    [b"", b"\xff\xfe", b"a.b", signed(b"{}").encode(), signed(APPROVE | {"v": 2}).encode()],
    ids=["nothing", "no_text", "two_parts", "no_payload", "another_version"],
)
def test_bytes_that_are_no_decision_mean_that_the_log_was_altered(evidence: bytes) -> None:
    with pytest.raises(BrokenEvidence):
        SignedDecision.decode(evidence)
