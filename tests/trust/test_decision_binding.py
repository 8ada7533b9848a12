"""A decision's payload: what it is bound to, when it lapses, and how the service writes one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from app.trust.decision import (
    ApprovalBinding,
    Choice,
    Malformed,
    binding_mismatch,
    build_payload,
    canonical_payload,
    lapse,
    verdict_mismatch,
)
from tests.trust.decisions import APPROVE, BINDING, DENY, NOW, payload_of
from tests.trust.signer import compact


def test_path_and_decision_must_say_the_same() -> None:
    assert verdict_mismatch(payload_of(DENY), "deny") is None
    mismatch = verdict_mismatch(payload_of(DENY), "approve")
    assert mismatch == Malformed("decision must be approve, as the path has it", "/decision")


@pytest.mark.parametrize("fields", [APPROVE, DENY], ids=["approve", "deny"])
def test_a_decision_about_the_call_itself_is_bound_to_it(fields: dict[str, Any]) -> None:
    assert binding_mismatch(payload_of(fields), BINDING) is None


@dataclass(frozen=True)
class Mismatch:
    id: str
    pointer: str
    fields: dict[str, Any]
    binding: ApprovalBinding = BINDING


_PLAIN = replace(BINDING, session_allowed=False, sandbox_escalation=False)
_MISMATCHES = (
    Mismatch("tenant", "/tenant", APPROVE | {"tenant": "other"}),
    Mismatch("approval", "/approval_id", APPROVE | {"approval_id": "appr_2"}),
    Mismatch("run", "/run_id", APPROVE | {"run_id": "run_2"}),
    Mismatch("conversation", "/conversation_id", APPROVE | {"conversation_id": "conv_2"}),
    Mismatch("turn", "/turn_id", APPROVE | {"turn_id": "turn_2"}),
    Mismatch("request", "/request_id", APPROVE | {"request_id": "req_2"}),
    Mismatch("tool", "/tool", APPROVE | {"tool": "http_get"}),
    Mismatch(
        "definition", "/tool_definition_digest", APPROVE | {"tool_definition_digest": "e" * 64}
    ),
    Mismatch("arguments", "/args_sha256", APPROVE | {"args_sha256": "b" * 64}),
    Mismatch("an edit of a denial", "/override_args", DENY | {"override_args": "{}"}),
    Mismatch("a session denial", "/scope", DENY | {"scope": "session"}),
    Mismatch("session not allowed", "/scope", APPROVE | {"scope": "session"}, _PLAIN),
    Mismatch(
        "covering more",
        "/covered_capabilities",
        APPROVE | {"covered_capabilities": ["arbitrary-egress", "local-read", "mutate-external"]},
    ),
    Mismatch(
        "covering less",
        "/covered_capabilities",
        APPROVE | {"covered_capabilities": ["arbitrary-egress"]},
    ),
    Mismatch(
        "covering unsorted",
        "/covered_capabilities",
        APPROVE | {"covered_capabilities": ["mutate-external", "arbitrary-egress"]},
    ),
    Mismatch(
        "a covering denial",
        "/covered_capabilities",
        DENY | {"covered_capabilities": ["arbitrary-egress", "mutate-external"]},
    ),
    Mismatch("no escalation", "/sandbox_mode", APPROVE | {"sandbox_mode": "relaxed"}, _PLAIN),
    Mismatch("two at once", "/tool", APPROVE | {"tool": "x", "args_sha256": "b" * 64}),
    Mismatch("two rules at once", "/scope", DENY | {"scope": "session", "sandbox_mode": "relaxed"}),
)


@pytest.mark.parametrize("case", _MISMATCHES, ids=lambda case: case.id)
def test_t68_the_first_field_that_is_not_the_calls_own_is_named(case: Mismatch) -> None:
    assert binding_mismatch(payload_of(case.fields), case.binding) == case.pointer


def test_session_scope_edit_and_relaxed_sandbox_pass_where_they_are_allowed() -> None:
    fields = APPROVE | {"scope": "session", "override_args": "{}", "sandbox_mode": "relaxed"}
    assert binding_mismatch(payload_of(fields), BINDING) is None


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (NOW - 61, "iat must be at most 60 seconds ahead"),
        (NOW - 60, None),
        (NOW + 900, None),
        (NOW + 901, "the decision has expired"),
    ],
)
def test_a_decision_serves_from_a_minute_before_it_was_made_to_its_end(
    now: int, why: str | None
) -> None:
    assert lapse(payload_of(APPROVE), now=now) == why


@pytest.mark.parametrize(
    ("choice", "fields"),
    [
        (Choice("approve"), APPROVE),
        (Choice("deny"), DENY),
        (
            Choice("approve", "session", '{"n":1}', "mind it", "because", "relaxed"),
            APPROVE
            | {
                "scope": "session",
                "override_args": '{"n":1}',
                "note": "mind it",
                "reason": "because",
                "sandbox_mode": "relaxed",
            },
        ),
    ],
    ids=["approve", "deny", "everything chosen"],
)
def test_a_built_payload_is_the_one_a_client_would_make(
    choice: Choice, fields: dict[str, Any]
) -> None:
    payload = build_payload(BINDING, choice, approver="alice", nonce=bytes(range(16)), now=NOW)
    assert payload == payload_of(fields)
    assert canonical_payload(payload) == compact(fields)


def test_a_choice_that_makes_no_payload_is_malformed() -> None:
    choice = Choice("approve", note="x" * 4097)
    payload = build_payload(BINDING, choice, approver="alice", nonce=bytes(16), now=NOW)
    assert isinstance(payload, Malformed)
    assert payload.pointer == "/note"
