"""Mutations: what the rules changed, in the service's own word, and as an export shows it."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from app.trust.export import Report, verify_export
from app.trust.mutation import Mutation, verify_mutation
from app.trust.refusal import Refused
from app.trust.statement import StatementKind, sign_statement, signature_of
from tests.trust.logs import HEADER, ROWS, SERVICE, Row, lines, records
from tests.trust.signer import Signer, compact

NEW_ARGS = b'{"n":9}'
MUTATION = Mutation(
    tenant="acme",
    conversation_id="conv_1",
    run_id="run_1",
    turn_id="turn_1",
    worker="",
    call_id="call_1_1_0",
    tool="http_post",
    kind="input_rewrite",
    rule="dispatch_rules/0",
    original_sha256="a" * 64,
    mutated_sha256=sha256(NEW_ARGS).hexdigest(),
)
KEYS = {"seal-1": SERVICE.public}


def signature(mutation: Mutation = MUTATION) -> str:
    kind = StatementKind.DISPATCH_MUTATION
    return signature_of(sign_statement(kind, mutation.members(), key=SERVICE, kid="seal-1"))


def test_a_mutation_holds_for_exactly_what_was_changed() -> None:
    assert verify_mutation(MUTATION, signature=signature(), kid="seal-1", keys=KEYS) is None


def test_a_mutation_is_a_jws_over_the_canonical_statement() -> None:
    twin = Signer.of(int.from_bytes(bytes(40), "big") + 1)
    header = {"alg": "ES256", "kid": "k", "typ": "turngate-dispatch-mutation+jws"}
    statement = {
        "typ": "turngate.dispatch-mutation",
        "tenant": "acme",
        "conversation_id": "conv_1",
        "run_id": "run_1",
        "turn_id": "turn_1",
        "worker": "",
        "call_id": "call_1_1_0",
        "tool": "http_post",
        "kind": "input_rewrite",
        "rule": "dispatch_rules/0",
        "original_sha256": "a" * 64,
        "mutated_sha256": sha256(NEW_ARGS).hexdigest(),
    }
    made = twin.jws(header, compact(statement)).rpartition(".")[2]
    assert verify_mutation(MUTATION, signature=made, kid="k", keys={"k": twin.public}) is None


@pytest.mark.parametrize("member", sorted(MUTATION.members()))
def test_any_one_altered_member_fails(member: str) -> None:
    altered = replace(MUTATION, **{member: "other"})
    refused = verify_mutation(altered, signature=signature(), kid="seal-1", keys=KEYS)
    assert isinstance(refused, Refused)


def told(private: bytes | None = NEW_ARGS, **changed: Any) -> Row:
    data = {
        "call_id": "call_1_1_0",
        "tool": "http_post",
        "kind": "input_rewrite",
        "original_sha256": "a" * 64,
        "rule": "dispatch_rules/0",
        "mutated_sha256": MUTATION.mutated_sha256,
        "kid": "seal-1",
        "signature": signature(),
    }
    return Row("dispatch.mutated", data | changed, private, run_id="run_1", turn_id="turn_1")


def whats(row: Row) -> list[str]:
    report = verify_export(lines(records((*ROWS, row)), HEADER))
    assert isinstance(report, Report)
    return [finding.what for finding in report.findings]


@pytest.mark.parametrize("private", [NEW_ARGS, None], ids=["arguments", "a redaction has none"])
def test_a_signed_mutation_in_a_log_is_sound(private: bytes | None) -> None:
    assert whats(told(private)) == []


NOT_OURS = "the mutation is not the service's: "


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (told(rule="dispatch_rules/1"), NOT_OURS + "the signature does not hold"),
        (told(original_sha256="b" * 64), NOT_OURS + "the signature does not hold"),
        (told(kid="other"), NOT_OURS + "kid must be a key of the service"),
        (told(signature=""), NOT_OURS),
        (told(worker={"call_id": "call_1_1_1", "agent": "a"}), NOT_OURS),
        (told(b'{"n":8}'), "mutated_sha256 is not the digest of what the call became"),
        (told(call_id=7), "/call_id: "),
        (replace(told(), run_id="run_2"), NOT_OURS + "the signature does not hold"),
        (replace(told(), turn_id=None), NOT_OURS + "the signature does not hold"),
    ],
    ids=["rule", "original", "key", "unsigned", "worker", "private", "form", "run", "turn"],
)
def test_an_altered_mutation_in_a_log_is_found(row: Row, found: str) -> None:
    assert [what.startswith(found) for what in whats(row)] == [True]
