"""Leases: the exclusive, numbered right to drive a conversation, by the clock of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.errors import LeaseLost, StoreUnavailable
from app.ids import Identity
from app.log.records import Lease
from app.store.artifacts.artifact_store import StoreArtifacts
from app.store.rows import records
from app.store.rows.ready import ORDER
from app.store.server.connections import storing
from app.store.server.row_security import OneTenant
from app.store.texts import escape, unescape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from app.log.envelope import Event, NewEvent
    from app.runctx.shapes import ArtifactRef, NewArtifact
    from app.store.artifacts.bucket import Bucket
    from app.store.log.appender import Appender
    from app.store.server.connections import Pool
    from app.store.server.row_security import EveryTenant

# The claim locks before it looks: one that does not wait for a worker that is just letting go would
# find the lease taken, end, and leave the run to nobody. What else it looks at is as old as its
# snapshot, so when the head has moved while it waited it claims nothing and is asked again.
#
# A claim waits for no disk: a crash of the server may forget it, and the run is claimed again. No
# generation comes twice even then, for it is at least the time in milliseconds; so the worker whose
# claim was forgotten finds its lease lost, and whatever it did append has made its claim durable.
_CLAIM: Final = """
WITH l AS MATERIALIZED (
    SELECT id, head_seq, tainted, lease_owner, lease_until FROM conversations
    WHERE id = $1 AND kind = 'user' FOR NO KEY UPDATE
), s AS (
    SELECT head_seq FROM conversations WHERE id = $1
), n AS (
    SELECT r.* FROM runs r
    WHERE r.conversation_id = $1 AND r.ended_at IS NULL AND NOT EXISTS (
        SELECT FROM runs a WHERE a.conversation_id = $1 AND a.ended_at IS NULL
            AND a.status = 'paused')
    ORDER BY ORDERING LIMIT 1
), u AS (
    UPDATE conversations c SET lease_owner = $2,
        lease_generation = greatest(c.lease_generation + 1,
            (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
        lease_until = clock_timestamp() + make_interval(secs => $3)
    FROM l, s, n
    WHERE c.id = l.id AND l.head_seq = s.head_seq
        AND (l.lease_owner IS NULL OR l.lease_until < clock_timestamp())
    RETURNING c.lease_generation
)
SELECT l.head_seq <> s.head_seq AS is_stale, u.lease_generation, l.tainted AS log_tainted, n.*,
    a.spec AS present_spec, a.digest AS present_digest, a.created_at AS present_created_at,
    a.updated_at AS present_updated_at,
    (SELECT max(e.seq) FROM events e WHERE e.run_id = n.id) AS run_head_seq
FROM l CROSS JOIN s LEFT JOIN u ON true LEFT JOIN n ON u.lease_generation IS NOT NULL
    LEFT JOIN agents a ON a.tenant = n.tenant AND a.name = n.agent""".replace("ORDERING", ORDER)

_RENEW: Final = """
UPDATE conversations SET lease_until = clock_timestamp() + make_interval(secs => $3)
WHERE id = $1 AND lease_generation = $2 AND lease_owner IS NOT NULL
RETURNING true"""


_OWNER: Final = "SELECT principal FROM conversations WHERE id = $1"


class StoreLeases:
    """The port `Leases`. What is claimed may be forgotten by a crash; what is kept may not."""

    def __init__(
        self, forgetful: EveryTenant, appender: Appender, pool: Pool, bucket: Bucket | None = None
    ) -> None:
        self._bucket = bucket
        self._forgetful = forgetful
        self._appender = appender
        self._pool = pool

    async def claim(self, conversation_id: str, *, owner: str, ttl_s: float) -> Lease | None:
        """Take the conversation if its lease is free or over and a run is ready; else None."""
        async with self._forgetful.borrowed() as connection:
            row = await connection.fetchrow(_CLAIM, conversation_id, owner, ttl_s)
            while row is not None and row["is_stale"]:
                row = await connection.fetchrow(_CLAIM, conversation_id, owner, ttl_s)
        if row is None or row["lease_generation"] is None:
            return None
        return Lease(
            tenant=unescape(row["tenant"]),
            conversation_id=conversation_id,
            generation=row["lease_generation"],
            run=records.run(row),
            present=None if row["present_spec"] is None else records.present_agent(row),
            tainted=row["log_tainted"],
        )

    async def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """Prolong the lease. Raises LeaseLost."""
        async with self._forgetful.borrowed() as connection:
            renewed = await connection.fetchval(
                _RENEW, lease.conversation_id, lease.generation, ttl_s
            )
        if not renewed:
            raise LeaseLost(f"the lease on {lease.conversation_id!r} is another's")

    async def append(
        self, lease: Lease, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        """Append while the lease holds. Raises LeaseLost."""
        return await self._appender.append(
            lease.conversation_id, events, at=now, generation=lease.generation
        )

    async def finish(
        self, lease: Lease, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        """Append the closing events, free the lease and wake the next ready run, as one."""
        return await self._appender.append(
            lease.conversation_id, events, at=now, generation=lease.generation, releases=True
        )

    async def keep(self, lease: Lease, new: NewArtifact) -> ArtifactRef:
        """Keep a file of the leased run in its conversation, for good when this returns.

        A call's result cannot be had again: while the bucket is away it is kept in the database.
        """
        rows = OneTenant(self._pool, escape(lease.tenant))
        with storing():
            owner = await rows.fetchval(_OWNER, lease.conversation_id)
        scope = Identity(lease.tenant, unescape(owner), lease.conversation_id, lease.run.id)
        try:
            ref, _ = await StoreArtifacts(self._pool, self._bucket).put(scope, new)
        except StoreUnavailable:
            if self._bucket is None:
                raise
            ref, _ = await StoreArtifacts(self._pool).put(scope, new)
        return ref
