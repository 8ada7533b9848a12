"""What `turngate audit verify` says, and the verdict on a file from the file alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.trust.export import Report, Unreadable, verify_export

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A log that was replaced as a whole has one finding for each of its events.
SHOWN_FINDINGS: Final = 20


def verify_file(file: Path) -> Report | Unreadable:
    """Judge an exported log."""
    try:
        with file.open("rb") as lines:
            return verify_export(lines)
    except OSError as error:
        return Unreadable(error.strerror or str(error))


def told(name: str, report: Report) -> Iterator[str]:
    """The lines to print about one log: what was checked, or what does not hold and where."""
    checked = f"{_count(report.events, 'event')}, {_count(report.decisions, 'signed decision')}"
    if report.unsealed:
        checked += f", {_count(report.unsealed, 'event')} at its end not sealed"
    if not report.findings:
        yield f"sound     {name}: {checked}"
        return
    yield f"tampered  {name}: {checked}, {_count(len(report.findings), 'finding')}"
    for finding in report.findings[:SHOWN_FINDINGS]:
        yield f"  {finding.where}: {finding.what}"
    if (more := len(report.findings) - SHOWN_FINDINGS) > 0:
        yield f"  and {more} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
