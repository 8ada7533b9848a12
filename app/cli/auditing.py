"""Logs of the database: exported as files that prove themselves, or judged on the spot.

Verifying a stored log exports it first, so that both kinds are judged by the same code, which
knows nothing of the database. What only the database can show is added to its findings.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from app.store.log.stored_logs import StoredLogs
from app.store.server.row_security import EveryTenant
from app.store.server.whereabouts import running_database
from app.trust.chain import GENESIS
from app.trust.export import (
    ExportHeader,
    Finding,
    Report,
    Unreadable,
    event_line,
    header_line,
    verify_export,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from app.settings import Settings
    from app.store.log.stored_logs import StoredLog


class NoSuchLog(Exception):
    """There is no conversation of that id."""


async def export(settings: Settings, conversation_id: str, file: Path) -> int:
    """Write a conversation's log to `file`; how many events it has.

    What was in the file is replaced only once the whole log has been read. Raises NoSuchLog,
    StoreUnavailable, OSError.
    """
    with TemporaryFile() as scratch:
        async with _logs(settings) as logs, logs.opened(conversation_id) as log:
            if log is None:
                raise NoSuchLog(f"no conversation {conversation_id!r}")
            await _write(log, scratch)
            events = log.head[0]
        scratch.seek(0)
        with file.open("wb") as output:
            copyfileobj(scratch, output)
    return events


async def verify_stored(
    settings: Settings, conversation_id: str | None
) -> AsyncIterator[tuple[str, Report]]:
    """Judge one stored log or all, each under its name. Raises NoSuchLog, StoreUnavailable."""
    async with _logs(settings) as logs:
        names = await logs.names() if conversation_id is None else [conversation_id]
        for name in names:
            async with logs.opened(name) as log:
                if log is None:
                    raise NoSuchLog(f"no conversation {name!r}")
                yield name, await judged(log)


async def judged(log: StoredLog) -> Report:
    """What its own export and its rows say about a log."""
    with TemporaryFile() as scratch:
        findings = await _write(log, scratch)
        scratch.seek(0)
        report = verify_export(scratch)
    if isinstance(report, Unreadable):
        return Report(0, 0, [Finding("keys", report.detail)])
    return replace(report, findings=[*report.findings, *findings])


async def _write(log: StoredLog, output: IO[bytes]) -> list[Finding]:
    """Write the export of a log; what about its rows does not hold."""
    findings: list[Finding] = []
    header = ExportHeader(
        tenant=log.tenant,
        conversation_id=log.conversation_id,
        keys=list(log.keys),
        seal_keys=list(log.service_keys),
        passkeys=list(log.passkeys),
    )
    output.write(header_line(header))
    last = (0, GENESIS)
    async for event in log.events():
        output.write(event_line(event.record))
        last = event.record.seq, event.record.hash
        findings += [
            Finding(f"seq {event.record.seq}", f"column {name} is not what the event says")
            for name in event.wrong_columns
        ]
    if last != log.head:
        findings.append(
            Finding("head", f"the log ends at seq {last[0]}, its head says {log.head[0]}")
        )
    return findings


@asynccontextmanager
async def _logs(settings: Settings) -> AsyncIterator[StoredLogs]:
    async with running_database(settings.database_url, data_dir=settings.data_dir) as dsn:
        everyone = await EveryTenant.open(dsn, largest=2)
        async with everyone.pool:
            yield StoredLogs(everyone)
