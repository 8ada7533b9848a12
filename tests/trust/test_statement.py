"""Statements: what the service signs itself, each kind under a type of its own (turn.md 6.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.trust.keys import derive_signing_key
from app.trust.refusal import Refused, UnknownKey
from app.trust.statement import (
    StatementKind,
    sign_statement,
    signature_of,
    verify_signature,
    verify_statement,
)
from tests.trust.signer import Signer, compact

KIND = StatementKind.QUESTION_ANSWER
SERVICE = derive_signing_key(bytes(39) + b"\x06")
# The same private number, held by `cryptography` alone.
TWIN = Signer.of(7)
KEYS = {"k": TWIN.public}
MEMBERS: dict[str, Any] = {"tenant": "acme", "answers": [{"index": 0, "text": "blå"}]}
SIGNED = sign_statement(KIND, MEMBERS, key=SERVICE, kid="k")
HEADER = {"alg": "ES256", "kid": "k", "typ": "turngate-question-answer+jws"}


def test_a_statement_gives_back_exactly_what_was_stated() -> None:
    assert verify_statement(KIND, SIGNED, keys=KEYS) == MEMBERS


def test_a_statement_is_a_jws_that_anybody_can_make_and_check() -> None:
    text = TWIN.jws(HEADER, compact({"typ": "turngate.question-answer", "tenant": "acme"}))
    assert verify_statement(KIND, text, keys=KEYS) == {"tenant": "acme"}


@pytest.mark.parametrize(
    ("kind", "typ"),
    [
        (StatementKind.SEAL, "turngate-seal+jws"),
        (StatementKind.DISPATCH_MUTATION, "turngate-dispatch-mutation+jws"),
        (StatementKind.QUESTION_ANSWER, "turngate-question-answer+jws"),
    ],
)
def test_each_kind_has_a_type_of_its_own(kind: StatementKind, typ: str) -> None:
    assert kind.header_typ == typ


@pytest.mark.parametrize("kind", StatementKind)
def test_no_kind_passes_for_another(kind: StatementKind) -> None:
    text = sign_statement(kind, MEMBERS, key=SERVICE, kid="k")
    held = {
        other
        for other in StatementKind
        if not isinstance(verify_statement(other, text, keys=KEYS), Refused)
    }
    assert held == {kind}


@dataclass(frozen=True)
class Foreign:
    id: str
    header: dict[str, str]
    payload: bytes


FOREIGN = [
    Foreign("the object says another kind", HEADER, compact({"typ": "turngate.seal"})),
    Foreign("the object says no kind", HEADER, compact({"tenant": "acme"})),
    Foreign("no object", HEADER, b"[]"),
    Foreign("a member twice", HEADER, b'{"typ":"turngate.question-answer","a":1,"a":2}'),
    Foreign("one more header", HEADER | {"cty": "x"}, compact({"typ": "turngate.question-answer"})),
]


@pytest.mark.parametrize("case", FOREIGN, ids=lambda case: case.id)
def test_what_the_key_signed_otherwise_is_no_statement(case: Foreign) -> None:
    text = TWIN.jws(case.header, case.payload)
    assert isinstance(verify_statement(KIND, text, keys=KEYS), Refused)


def test_a_key_that_is_not_known_is_told_apart_from_a_wrong_signature() -> None:
    unknown = verify_statement(KIND, SIGNED, keys={})
    assert isinstance(unknown, UnknownKey)
    assert unknown.kid == "k"
    wrong = verify_statement(KIND, SIGNED, keys={"k": Signer.of(8).public})
    assert isinstance(wrong, Refused)
    assert not isinstance(wrong, UnknownKey)


def test_what_has_no_canonical_form_is_not_signed() -> None:
    with pytest.raises(ValueError, match="exceeds"):
        sign_statement(KIND, {"count": 2**60}, key=SERVICE, kid="k")


def refusal(
    members: dict[str, Any], *, kid: str = "k", kind: StatementKind = KIND
) -> Refused | None:
    return verify_signature(kind, members, signature=signature_of(SIGNED), kid=kid, keys=KEYS)


def test_a_signature_alone_proves_the_fields_it_was_made_of() -> None:
    assert refusal(MEMBERS) is None


@pytest.mark.parametrize(
    "members",
    [{}, MEMBERS | {"tenant": "evil"}, MEMBERS | {"more": None}, {"count": 2**60}],
    ids=["nothing", "changed", "added", "no canonical form"],
)
def test_a_signature_proves_no_other_fields(members: dict[str, Any]) -> None:
    assert isinstance(refusal(members), Refused)


def test_a_signature_proves_nothing_under_another_kind_or_key() -> None:
    assert isinstance(refusal(MEMBERS, kind=StatementKind.SEAL), Refused)
    assert isinstance(refusal(MEMBERS, kid="other"), UnknownKey)


@given(st.text(max_size=90))
def test_random_text_is_no_statement_and_raises_nothing(text: str) -> None:
    assert isinstance(verify_statement(KIND, text, keys=KEYS), Refused)
