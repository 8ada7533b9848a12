"""What a real browser said, recorded: one passkey of each algorithm, and assertions gone wrong.

`python -m tests.browser.record_passkeys` records it anew; the verdicts are written here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.trust import base64url
from app.trust.passkey import (
    NewPasskey,
    Passkey,
    PasskeyProof,
    challenge_in,
    read_proof,
    verify_proof,
    verify_registration,
)
from app.trust.refusal import Refused

CORPUS: dict[str, Any] = json.loads((Path(__file__).parent / "passkey_corpus.json").read_text())
ORIGINS = frozenset({CORPUS["origin"]})
CHALLENGE = base64url.decode(CORPUS["challenge"]) or b""

# Each wrong assertion, and what is said against it.
VERDICTS = {
    "another origin": "origin must be one of the allowed origins",
    "a frame of another site": "crossOrigin must be false: no frame of another site may ask",
    "nobody verified": "the assertion does not hold",
    "verified afterwards": "the assertion does not hold",
    "another challenge": "the assertion does not hold",
    "another credential": "the assertion is of another credential",
    "another key": "the assertion does not hold",
    "replayed": "the assertion does not hold",
}
ANOTHER_TEXT = CORPUS["canonical"].replace('"appr_1"', '"appr_2"')
# Each as it is posted. A replayed one is sound, and was made for another approval.
WRONG = {
    **{name: (CORPUS["canonical"], assertion) for name, assertion in CORPUS["wrong"].items()},
    "replayed": (ANOTHER_TEXT, CORPUS["sound"]["ES256"]),
}


def passkey(algorithm: str) -> Passkey:
    """The passkey that a recorded registration gives."""
    credential = CORPUS["passkeys"][algorithm]
    assert challenge_in(credential) == CHALLENGE
    made = verify_registration(credential, challenge=CHALLENGE, rp_id="localhost", origins=ORIGINS)
    assert isinstance(made, NewPasskey), made
    return made.passkey


def proof(assertion: dict[str, Any], canonical: str = CORPUS["canonical"]) -> PasskeyProof:
    read = read_proof({"canonical": canonical, "assertion": assertion})
    assert isinstance(read, PasskeyProof), read
    return read


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA", "RS256"])
def test_a_passkey_of_each_algorithm_signs(algorithm: str) -> None:
    sound = proof(CORPUS["sound"][algorithm])
    assert verify_proof(sound, passkey=passkey(algorithm), origins=ORIGINS) is None


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA", "RS256"])
def test_a_passkey_of_each_algorithm_signs_no_other_text(algorithm: str) -> None:
    posted = {"canonical": "{}", "assertion": CORPUS["sound"][algorithm]}
    read = read_proof(posted)
    assert isinstance(read, PasskeyProof)
    refused = verify_proof(read, passkey=passkey(algorithm), origins=ORIGINS)
    assert refused == Refused("the assertion does not hold")


def test_every_wrong_assertion_has_a_verdict() -> None:
    assert WRONG.keys() == VERDICTS.keys()


@pytest.mark.parametrize("name", VERDICTS)
def test_f128_a_wrong_assertion_is_refused(name: str) -> None:
    canonical, assertion = WRONG[name]
    refused = verify_proof(proof(assertion, canonical), passkey=passkey("ES256"), origins=ORIGINS)
    assert refused == Refused(VERDICTS[name])


def test_f128_a_replay_for_its_own_text_holds_so_its_count_is_what_refuses_it() -> None:
    """F128: `tests/service/keys/test_assertions.py` says who does."""
    seen = [proof(CORPUS["sound"]["ES256"]) for _ in range(2)]
    verdicts = [verify_proof(each, passkey=passkey("ES256"), origins=ORIGINS) for each in seen]
    assert verdicts == [None, None]
    assert [each.sign_count for each in seen] == [2, 2]


def test_a_later_assertion_has_a_higher_count_so_an_old_one_is_told_apart() -> None:
    first, again = proof(CORPUS["sound"]["ES256"]), proof(CORPUS["again"])
    assert again.sign_count > first.sign_count > 0
