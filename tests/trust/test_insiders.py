"""What those within can do to a log, and what an export of it then shows.

The insider chains and seals as the service does, for its key is theirs. An approver's key is not.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

import pytest

from app.trust.export import ExportedKey, Report, verify_export
from tests.trust.decisions import KEY, signed
from tests.trust.logs import (
    DECIDED,
    HEADER,
    REQUESTED,
    ROWS,
    SERVICE,
    SIGNED,
    STARTED,
    Row,
    lines,
    records,
)
from tests.trust.signer import Signer

WITHIN: Final = Signer(SERVICE.material)
OTHER_ARGS: Final = '{"body":"{}","url":"http://127.0.0.1:9000/theirs"}'
OTHER_SHA256: Final = sha256(OTHER_ARGS.encode()).hexdigest()


def log(requested: dict[str, Any], decided: Row | None, started: dict[str, Any]) -> list[bytes]:
    """The export of a log that says this, chained and sealed all through."""
    told = (ROWS[0], Row("approval.requested", requested), decided, Row("tool.started", started))
    return lines(records((*(row for row in told if row is not None), ROWS[-1])))


def problems(exported: list[bytes]) -> list[str]:
    report = verify_export(exported)
    assert isinstance(report, Report)
    return [finding.what for finding in report.findings]


DECISION: Final = Row("approval.decided", DECIDED, signed(SIGNED).encode())


def test_what_they_chain_and_seal_without_changing_it_is_sound() -> None:
    assert problems(log(REQUESTED, DECISION, STARTED)) == []


def test_a_decision_that_a_worker_signs_with_the_key_it_holds_is_found() -> None:
    forged = replace(DECISION, private=signed(SIGNED, key=WITHIN).encode())
    assert problems(log(REQUESTED, forged, STARTED))[0] == "the signature does not hold"


REWRITTEN: Final[dict[str, dict[str, Any]]] = {
    "args_sha256": {
        "args": json.loads(OTHER_ARGS),
        "args_canonical": OTHER_ARGS,
        "args_sha256": OTHER_SHA256,
    },
    "tool": {"tool": "http_fetch"},
    "tool_definition_digest": {"tool_definition_digest": "e" * 64},
    "run_id": {"run_id": "run_2"},
    "turn_id": {"turn_id": "turn_2"},
    "request_id": {"request_id": "req_2"},
}


@pytest.mark.parametrize("member", REWRITTEN)
def test_an_operator_who_rewrites_all_else_leaves_a_signature_over_other_bytes(
    member: str,
) -> None:
    changed = REWRITTEN[member]
    decided, started = dict(DECIDED), dict(STARTED)
    if member == "args_sha256":
        decided["effective_args_sha256"] = started["args_sha256"] = OTHER_SHA256
    started["tool"] = changed.get("tool", started["tool"])
    found = problems(log(REQUESTED | changed, replace(DECISION, data=decided), started))
    assert found[0] == f"the signed /{member} is not that of approval.requested"


def test_an_operator_who_takes_a_decision_away_leaves_a_start_without_one() -> None:
    assert problems(log(REQUESTED, None, STARTED))[0].startswith("too few sound approvals")


def test_an_operator_can_write_a_log_of_which_nobody_signed_anything() -> None:
    # So what a log does not hold proves nothing against whoever owns it.
    alone = STARTED | {"covered_by": None}
    assert problems(lines(records((ROWS[0], Row("tool.started", alone), ROWS[-1])))) == []


def test_an_operator_who_names_a_key_of_their_own_is_told_by_its_thumbprint() -> None:
    # The export brings the keys, so whoever verifies it compares them with the devices.
    forged = replace(DECISION, private=signed(SIGNED, key=WITHIN).encode())
    own = ExportedKey(id="key_1", public_jwk=WITHIN.jwk, principal="alice")
    rows = (ROWS[0], Row("approval.requested", REQUESTED), forged, ROWS[-1])
    assert problems(lines(records(rows), HEADER.model_copy(update={"keys": [own]}))) == []
    assert WITHIN.public.thumbprint() != KEY.public.thumbprint()
