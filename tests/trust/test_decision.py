"""The signed decision: what is read, and what is verified."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.trust.decision import (
    DecisionPayload,
    Malformed,
    ReadDecision,
    VerifiedDecision,
    read_decision,
    read_payload,
    verify_decision,
)
from app.trust.refusal import Refused
from tests.trust.decisions import APPROVE, HEAD, KEY, NOW, payload_of, signed
from tests.trust.signer import Signer, compact, join, signing_input


def test_a_sound_decision_is_read_and_verified() -> None:
    text = signed(APPROVE)
    read = read_decision(text)
    assert isinstance(read, ReadDecision)
    assert (read.kid, read.payload.approver) == ("key_1", "alice")
    assert verify_decision(read, key=KEY.public) == VerifiedDecision(
        payload=payload_of(APPROVE),
        payload_bytes=compact(APPROVE),
        kid="key_1",
        evidence=text.encode(),
    )


def test_the_header_may_be_written_in_any_order_and_with_spaces() -> None:
    head = b'{ "typ": "turngate-decision+jws", "kid": "key_1", "alg": "ES256" }'
    read = read_decision(KEY.jws(head, compact(APPROVE)))
    assert isinstance(read, ReadDecision)
    assert isinstance(verify_decision(read, key=KEY.public), VerifiedDecision)


def test_t67_a_decision_signed_by_another_key_is_refused() -> None:
    read = read_decision(signed(APPROVE, key=Signer.of(8)))
    assert isinstance(read, ReadDecision)
    assert verify_decision(read, key=KEY.public) == Refused("the signature does not hold")


@pytest.mark.parametrize("typ", ["turngate-answer+jws", "turngate-key-proof+jws"])
def test_t68_an_answer_offered_as_an_approval_fails(typ: str) -> None:
    """T68: each kind of artifact has its own `typ`, in the header and in the payload."""
    assert isinstance(read_decision(signed(APPROVE, typ=typ)), Malformed)
    assert isinstance(read_decision(signed(APPROVE | {"typ": "turngate.answer"})), Malformed)


OTHER = compact(APPROVE)
_TOKENS = {
    "four parts": signed(APPROVE) + ".QQ",
    "padded": signed(APPROVE) + "==",
    "no signature": signed(APPROVE).rpartition(".")[0] + ".",
    "an extra member": signed(APPROVE, cty="json"),
    "no kid": KEY.jws({k: v for k, v in HEAD.items() if k != "kid"}, OTHER),
    "no typ": KEY.jws({k: v for k, v in HEAD.items() if k != "typ"}, OTHER),
    "typ of a key proof": signed(APPROVE, typ="turngate-key-proof+jws"),
    "typ of an access token": signed(APPROVE, typ="JWT"),
    "alg none": join(HEAD | {"alg": "none"}, OTHER, bytes(64)),
    "alg RS256": signed(APPROVE, alg="RS256"),
    "alg EdDSA": signed(APPROVE, alg="EdDSA"),
    "alg ES384": signed(APPROVE, alg="ES384"),
    "DER signature": join(HEAD, OTHER, KEY.der(signing_input(HEAD, OTHER))),
    "a short signature": join(HEAD, OTHER, bytes(63)),
    "a long signature": join(HEAD, OTHER, bytes(96)),
    "spaces": signed(json.dumps(APPROVE, sort_keys=True).encode()),
    "another order": signed(json.dumps(APPROVE, separators=(",", ":")).encode()),
    "a member twice": signed(b'{"decision":"deny",' + OTHER[1:]),
    "a list": signed(b"[]"),
    "not JSON": signed(b"{"),
    "not UTF-8": signed(b"\xff" + OTHER),
    "over 1 MiB": signed(APPROVE | {"tool": "x" * (1 << 20)}),
}


@pytest.mark.parametrize("text", _TOKENS.values(), ids=_TOKENS.keys())
def test_f127_a_token_of_another_form_is_malformed(text: str) -> None:
    """F127: whoever made it and with whatever key, it is no decision."""
    assert isinstance(read_decision(text), Malformed)


@dataclass(frozen=True)
class Wrong:
    field: str
    value: object


_WRONG = (
    Wrong("v", 2),
    Wrong("v", True),
    Wrong("v", "1"),
    Wrong("typ", "turngate.answer"),
    Wrong("tenant", None),
    Wrong("approval_id", 1),
    Wrong("decision", "yes"),
    Wrong("decision", None),
    Wrong("decision", ""),
    Wrong("decision", 0),
    Wrong("decision", []),
    Wrong("decision", True),
    Wrong("override_args", {}),
    Wrong("override_args", '{"a": 1}'),
    Wrong("override_args", '{"b":1,"a":2}'),
    Wrong("override_args", '{"a":1,"a":2}'),
    Wrong("override_args", '{"a":1.0}'),
    Wrong("override_args", ""),
    Wrong("note", "x" * 4097),
    Wrong("note", 1),
    Wrong("reason", "x" * 4097),
    Wrong("scope", "always"),
    Wrong("scope", None),
    Wrong("covered_capabilities", "mutate-external"),
    Wrong("covered_capabilities", [1]),
    Wrong("covered_capabilities", None),
    Wrong("sandbox_mode", "none"),
    Wrong("approver", None),
    Wrong("nonce", "AAECAwQFBgcICQoLDA0O"),
    Wrong("nonce", "AAECAwQFBgcICQoLDA0ODw=="),
    Wrong("nonce", "AAECAwQFBgcICQoLDA0ODx"),
    Wrong("iat", str(NOW)),
    Wrong("iat", True),
    Wrong("iat", -1),
    Wrong("iat", NOW + 0.5),
    Wrong("exp", None),
    Wrong("exp", NOW),
    Wrong("exp", NOW - 1),
    Wrong("exp", NOW + 901),
    Wrong("exp", 253_402_300_800),
)


@pytest.mark.parametrize("wrong", _WRONG, ids=lambda wrong: f"{wrong.field} {wrong.value!r:.20}")
def test_t74_a_field_of_another_type_or_value_is_malformed_and_named(wrong: Wrong) -> None:
    """T74: only the literals `approve` and `deny` are verdicts; no field is coerced."""
    read = read_decision(signed(APPROVE | {wrong.field: wrong.value}))
    assert isinstance(read, Malformed)
    assert (read.pointer or "").startswith(f"/{wrong.field}")


@pytest.mark.parametrize("name", list(APPROVE))
def test_t69_a_decision_without_one_of_its_fields_is_malformed(name: str) -> None:
    """T69: what is not bound to tool, definition and arguments is no decision."""
    fields = {k: v for k, v in APPROVE.items() if k != name}
    assert read_payload(compact(fields)) == Malformed("Field required", f"/{name}")


def test_an_unknown_field_is_malformed() -> None:
    assert read_payload(compact(APPROVE | {"x": 1})) == Malformed(
        "Extra inputs are not permitted", "/x"
    )


def test_texts_are_measured_in_bytes() -> None:
    assert payload_of_utf8(APPROVE | {"note": "ä" * 2048}) is not None
    assert payload_of_utf8(APPROVE | {"note": "ä" * 2048 + "x"}) is None


def payload_of_utf8(fields: dict[str, Any]) -> DecisionPayload | None:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    payload = read_payload(text.encode())
    return payload if isinstance(payload, DecisionPayload) else None


def test_half_a_character_is_malformed() -> None:
    assert isinstance(read_payload(compact(APPROVE | {"note": "\ud800"})), Malformed)


@pytest.mark.parametrize("life", [1, 900])
def test_a_decision_may_live_from_one_second_to_fifteen_minutes(life: int) -> None:
    assert payload_of(APPROVE | {"exp": NOW + life}).exp == NOW + life


_OTHERS = {
    "tenant": "other",
    "approval_id": "appr_2",
    "run_id": "run_2",
    "conversation_id": "conv_2",
    "turn_id": "turn_2",
    "request_id": "req_2",
    "tool": "shell_exec",
    "tool_definition_digest": "e" * 64,
    "args_sha256": "b" * 64,
    "decision": "deny",
    "override_args": "{}",
    "note": "do more",
    "reason": "decided by a program",
    "scope": "session",
    "covered_capabilities": [],
    "sandbox_mode": "relaxed",
    "approver": "mallory",
    "nonce": "DwECAwQFBgcICQoLDA0ODw",
    "iat": NOW + 1,
    "exp": NOW + 899,
}


def test_what_holds_under_one_key_does_not_hold_under_another() -> None:
    """What is remembered of a signature is remembered of the key as well."""
    read = read_decision(signed(APPROVE))
    assert isinstance(read, ReadDecision)
    assert isinstance(verify_decision(read, key=KEY.public), VerifiedDecision)
    assert verify_decision(read, key=Signer.of(8).public) == Refused("the signature does not hold")
    assert isinstance(verify_decision(read, key=Signer.of(7).public), VerifiedDecision)


@pytest.mark.parametrize("name", sorted(APPROVE.keys() - {"v", "typ"}))
def test_t66_any_one_altered_field_fails_verification(name: str) -> None:
    """T66: the signature covers every field; `v` and `typ` have one value each."""
    altered = compact(APPROVE | {name: _OTHERS[name]})
    read = read_decision(join(HEAD, altered, KEY.raw(signing_input(HEAD, compact(APPROVE)))))
    assert isinstance(read, ReadDecision)
    assert verify_decision(read, key=KEY.public) == Refused("the signature does not hold")


def test_t66_the_signed_key_id_cannot_be_exchanged() -> None:
    signature = KEY.raw(signing_input(HEAD, OTHER))
    read = read_decision(join(HEAD | {"kid": "key_2"}, OTHER, signature))
    assert isinstance(read, ReadDecision)
    assert isinstance(verify_decision(read, key=KEY.public), Refused)


@given(st.text(max_size=80))
def test_t67_random_text_is_malformed_and_raises_nothing(text: str) -> None:
    assert isinstance(read_decision(text), Malformed)


@given(st.binary(min_size=1, max_size=80))
def test_t67_random_signed_bytes_are_malformed_and_raise_nothing(payload: bytes) -> None:
    assert isinstance(read_decision(signed(payload)), Malformed)


_JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.lists(st.integers())


@given(st.sampled_from(sorted(APPROVE)), _JSON)
def test_no_value_of_a_field_raises(name: str, value: object) -> None:
    read = read_decision(signed(APPROVE | {name: value}))
    assert isinstance(read, ReadDecision | Malformed)
