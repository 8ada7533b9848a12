"""The holds of all processes, in one small table: the port `SharedHolds`.

Times are the database's. A hold whose process has not renewed it for ten seconds is over; one that
was demoted is kept for as long as its principal may not hold again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.log.holds import HoldRow
from app.store.texts import escape, unescape

if TYPE_CHECKING:
    from app.log.holds import HoldChanges
    from app.store.server.row_security import EveryTenant

_WRITE: Final = """
INSERT INTO stream_holds AS held (
    tenant, run_id, holder, principal, window_events, acked_seq, renewed_at, demoted_at)
SELECT tenant, subject, holder, principal, window_events, acked_seq, now(),
    CASE WHEN is_demoted THEN now() END
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
    $7::boolean[])
    AS x(tenant, subject, holder, principal, window_events, acked_seq, is_demoted)
ORDER BY subject, holder
ON CONFLICT (run_id, holder) DO UPDATE SET
    acked_seq = greatest(held.acked_seq, excluded.acked_seq),
    renewed_at = excluded.renewed_at,
    demoted_at = coalesce(held.demoted_at, excluded.demoted_at)"""

_LEAVE: Final = """
DELETE FROM stream_holds
WHERE holder = ANY($1::text[]) AND demoted_at IS NULL OR renewed_at < now() - interval '1 hour'"""

_READ: Final = """
SELECT tenant, run_id, holder, principal, window_events, acked_seq,
    extract(epoch FROM now() - demoted_at)::float8 AS demoted_s
FROM stream_holds
WHERE CASE WHEN demoted_at IS NULL THEN renewed_at > now() - interval '10 seconds'
    ELSE demoted_at > now() - interval '5 minutes' END"""


class StoreHolds:
    """Writes and reads what the gates of all processes know."""

    def __init__(self, everyone: EveryTenant) -> None:
        self._everyone = everyone

    async def exchange(self, changes: HoldChanges) -> list[HoldRow]:
        """Write changes, then read all that counts. Raises StoreUnavailable."""
        async with self._everyone.borrowed() as connection:
            if changes.rows:
                await connection.execute(_WRITE, *_columns(changes.rows))
            if changes.gone:
                await connection.execute(_LEAVE, list(changes.gone))
            rows = await connection.fetch(_READ)
        return [
            HoldRow(
                tenant=unescape(row["tenant"]),
                subject=row["run_id"],
                holder=row["holder"],
                principal=unescape(row["principal"]),
                window=row["window_events"],
                acknowledged=row["acked_seq"],
                demoted_s=row["demoted_s"],
            )
            for row in rows
        ]


def _columns(rows: tuple[HoldRow, ...]) -> tuple[list[object], ...]:
    return (
        [escape(row.tenant) for row in rows],
        [row.subject for row in rows],
        [row.holder for row in rows],
        [escape(row.principal) for row in rows],
        [row.window for row in rows],
        [row.acknowledged for row in rows],
        [row.demoted_s is not None for row in rows],
    )
