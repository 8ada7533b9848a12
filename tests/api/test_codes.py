"""The table of codes is total, and says what service.md 11 says."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

import app
from app.api.codes import ANSWERS, answer_of
from app.errors import TurngateError

if TYPE_CHECKING:
    from collections.abc import Iterator

SPECIFIED = {
    401: "auth.token decision.signature",
    403: "auth.scope decision.approver key.endorsement",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    409: (
        "conversation.busy run.terminal approval.decided approval.superseded approval.cancelled "
        "approval.expired decision.replayed decision.duplicate question.answered key.taken "
        "idempotency.mismatch idempotency.in_progress"
    ),
    412: "agent.changed",
    413: "body.too_large artifact.too_large",
    415: "body.media_type",
    422: (
        "request.invalid agent.invalid agent.unknown decision.malformed decision.binding "
        "decision.expired decision.edit key.invalid passkey.invalid mcp.invalid "
        "attachment.unknown"
    ),
    429: "rate.limited quota.open_runs",
    500: "internal",
    503: "unavailable",
}
ROWS = [(code, status) for status, codes in SPECIFIED.items() for code in codes.split()]
CLOSES = {
    "auth.token": 4401,
    "auth.scope": 4403,
    "not_found": 4404,
    "rate.limited": 4429,
    "internal": 1011,
    "frame.malformed": 4400,
    "frame.unknown": 4400,
    "stream.after": 4400,
    "stream.ack": 4400,
}


@pytest.mark.parametrize(("code", "status"), ROWS, ids=[code for code, _ in ROWS])
def test_a_code_has_the_status_of_the_specification(code: str, status: int) -> None:
    assert answer_of(code).status == status


@pytest.mark.parametrize(("code", "close"), CLOSES.items(), ids=CLOSES)
def test_a_code_closes_a_socket_as_the_specification_says(code: str, close: int) -> None:
    assert answer_of(code).close == close


def test_every_error_of_the_house_has_a_line() -> None:
    for module in pkgutil.walk_packages(app.__path__, "app."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    missing = {error.__name__: error.code for error in errors() if error.code not in ANSWERS}
    assert missing == {}


def test_a_code_without_a_line_reads_as_our_own_fault() -> None:
    assert answer_of("no.such.code").status == 500


def errors(root: type[TurngateError] = TurngateError) -> Iterator[type[TurngateError]]:
    for error in root.__subclasses__():
        yield error
        yield from errors(error)
