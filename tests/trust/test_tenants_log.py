"""A tenant's own log: sealed at every entry since a release, and before that by nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from app.trust.export import Finding, Report, verify_export
from tests.trust.logs import HEADER, Row, append, lines, seal_row

if TYPE_CHECKING:
    from app.trust.chain import ChainRecord

NAME: Final = "audit_acme"
SAVED: Final = Row("agent.saved", {"resource": {"name": "courier"}, "by": "alice"})
DELETED: Final = Row("agent.deleted", {"resource": {"name": "courier"}, "by": "mallory"})


def log(*rows: Row | int) -> list[ChainRecord]:
    """The rows as a chained log; a number stands for the seal from there on.

    The event of a seal is the first that the next seal covers.
    """
    chained: list[ChainRecord] = []
    for row in rows:
        append(chained, seal_row(chained, row, NAME) if isinstance(row, int) else row, NAME)
    return chained


def inserted_before_the_seal() -> list[ChainRecord]:
    """As somebody writes it who has the database and no key of the service."""
    chained = log(SAVED)
    seal = seal_row(chained, 1, NAME)
    append(chained, DELETED, NAME)
    append(chained, seal, NAME)
    return chained


def verdict(chained: list[ChainRecord], *, tenant: str = "acme") -> Report:
    header = HEADER.model_copy(update={"conversation_id": NAME, "tenant": tenant})
    report = verify_export(lines(chained, header))
    assert isinstance(report, Report)
    return report


@pytest.mark.parametrize(
    ("chained", "unsealed"),
    [
        pytest.param(log(), 0, id="nothing"),
        pytest.param(log(SAVED, 1), 0, id="one entry"),
        pytest.param(log(SAVED, 1, DELETED, SAVED, 2), 0, id="two entries in one transaction"),
        pytest.param(log(SAVED, DELETED), 2, id="of an older release"),
        pytest.param(log(SAVED, DELETED, SAVED, 1), 0, id="of an older release, sealed since"),
    ],
)
def test_a_log_as_the_service_writes_it_is_sound(chained: list[ChainRecord], unsealed: int) -> None:
    assert verdict(chained) == Report(len(chained), 0, [], unsealed)


@pytest.mark.parametrize(
    ("chained", "found"),
    [
        pytest.param(
            log(SAVED, 1, DELETED),
            [Finding("seq 3", "no seal covers this entry of the tenant's log")],
            id="an entry that somebody added",
        ),
        pytest.param(
            log(SAVED, 1, DELETED, 2)[:-1],
            [Finding("seq 3", "no seal covers this entry of the tenant's log")],
            id="its last seal cut off",
        ),
        pytest.param(
            inserted_before_the_seal(),
            [Finding("seq 3", "the seal does not reach to the event before it")],
            id="an entry put before the seal, and all linked anew",
        ),
        pytest.param(
            [*log(SAVED, 1)[:-1], log(DELETED, 1)[1]],
            [
                Finding("seq 2", "does not follow the event before it"),
                Finding("seq 2", "the root of the seal is not the hash of its last event"),
            ],
            id="the seal of another history",
        ),
    ],
)
def test_what_nobody_sealed_is_found(chained: list[ChainRecord], found: list[Finding]) -> None:
    report = verdict(chained)
    assert [finding.where for finding in report.findings] == [finding.where for finding in found]
    assert report.findings[-1] == found[-1]


def test_a_header_that_names_another_tenant_hides_no_entry() -> None:
    """No seal covers the header, so whoever adds an entry may change it, and not the events."""
    report = verdict(log(SAVED, 1, DELETED), tenant="other")
    assert report.findings == [Finding("seq 3", "no seal covers this entry of the tenant's log")]
