"""How far a session's turns are folded, as a row: its SQL, and the claim on its oldest range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson
import structlog

from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.memory import Health, SpilledRange
from app.runctx.rolling import Rolling
from app.store.memory.turns import from_octets, to_octets
from app.store.texts import escape, json_text, unescape

if TYPE_CHECKING:
    import asyncpg

    from app.store.memory.turns import Scope
    from app.store.server.connections import Connection
    from app.store.server.row_security import Reader

CLAIM_S: Final = 60.0

_KEY: Final = """tenant = $1 AND principal = $2 AND conversation_id = $3
    AND strategy = 'rolling_summary'"""
_READ: Final = """
SELECT model, summary, summary_trust, folded_through, health, failures, pending, claim,
    claim IS NOT NULL AND claimed_at > clock_timestamp() - make_interval(secs => $4) AS is_claimed
FROM memory_state WHERE KEY""".replace("KEY", _KEY)
_LOCK: Final = f"{_READ} FOR UPDATE"
_MAKE: Final = """
INSERT INTO memory_state (tenant, principal, conversation_id, strategy, model, summary,
    summary_trust, folded_through, health, failures, pending)
VALUES ($1, $2, $3, 'rolling_summary', $4, '', 0, 0, 'healthy', 0, '[]')
ON CONFLICT (tenant, principal, conversation_id, strategy) DO UPDATE SET model = excluded.model"""
_SAVE: Final = """
UPDATE memory_state SET summary = $4, summary_trust = $5, folded_through = $6, health = $7,
    failures = $8, pending = $9, updated_at = clock_timestamp()
WHERE KEY""".replace("KEY", _KEY)
_CLAIM: Final = """
UPDATE memory_state SET claim = gen_random_uuid(), claimed_at = clock_timestamp()
WHERE KEY RETURNING claim""".replace("KEY", _KEY)
_RELEASE: Final = """
UPDATE memory_state SET claim = NULL, claimed_at = NULL WHERE KEY""".replace("KEY", _KEY)
_WAITING: Final = """
SELECT tenant, principal, conversation_id FROM memory_state
WHERE strategy = 'rolling_summary' AND pending::text <> '[]' AND (
    claim IS NULL OR claimed_at <= clock_timestamp() - make_interval(secs => $1))
ORDER BY row_number() OVER (PARTITION BY tenant ORDER BY updated_at), updated_at LIMIT $2"""

log = structlog.get_logger("turngate.memory")


@dataclass(frozen=True, slots=True)
class StoredRolling:
    """The state of a session, and who folds its oldest range; `is_claimed` while that holds."""

    rolling: Rolling
    model: str
    claim: str | None
    is_claimed: bool

    @property
    def settled_through(self) -> int:
        """The last turn that is folded or may be so any moment, by whoever has had a claim."""
        rolling = self.rolling
        is_begun = self.claim is not None and rolling.pending
        return rolling.pending[0].last if is_begun else rolling.folded_through


@dataclass(frozen=True, slots=True)
class FoldClaim:
    """The right to fold the oldest range, for as long as the row has this token."""

    scope: Scope
    token: str
    model: str
    rolling: Rolling

    @property
    def identity(self) -> Identity:
        """Whose turns they are."""
        return Identity(*map(unescape, self.scope))


async def read(
    connection: Reader, scope: Scope, *, claim_s: float = CLAIM_S
) -> StoredRolling | None:
    """The state as it is now; None where nothing was ever remembered."""
    return _stored(await connection.fetchrow(_READ, *scope, claim_s))


async def locked(
    connection: Connection, scope: Scope, *, claim_s: float = CLAIM_S
) -> StoredRolling | None:
    """The state, which nobody else changes before this transaction ends."""
    return _stored(await connection.fetchrow(_LOCK, *scope, claim_s))


async def make(connection: Connection, scope: Scope, model: str) -> None:
    """A state, if there is none yet; `model` is who summarises from now on."""
    await connection.execute(_MAKE, *scope, escape(model))


async def save(connection: Connection, scope: Scope, rolling: Rolling) -> None:
    """Write the state; the claim stays as it is."""
    pending = [
        {"from": one.first, "to": one.last, "attempts": one.attempts} for one in rolling.pending
    ]
    await connection.execute(
        _SAVE,
        *scope,
        to_octets(rolling.summary),
        int(rolling.summary_trust),
        rolling.folded_through,
        rolling.health.value,
        rolling.failures,
        json_text(pending),
    )


async def claimed(connection: Connection, scope: Scope, rolling: Rolling, model: str) -> FoldClaim:
    """Claim the oldest range of a locked state; whoever had it before has it no more."""
    token: str = await connection.fetchval(_CLAIM, *scope)
    return FoldClaim(scope, token, model, rolling)


async def release(connection: Connection, scope: Scope) -> None:
    """Nobody folds the oldest range."""
    await connection.execute(_RELEASE, *scope)


async def waiting(connection: Connection, *, claim_s: float, most: int) -> list[Scope]:
    """Sessions whose ranges wait while nobody folds: of each tenant one, then the next of each.

    A tenant's longest untouched comes first, so none waits for all sessions of another.
    """
    rows = await connection.fetch(_WAITING, claim_s, most)
    return [(row["tenant"], row["principal"], row["conversation_id"]) for row in rows]


def notice(scope: Scope, before: Rolling, after: Rolling) -> None:
    """Tell of a change of health."""
    if before.health is not after.health:
        log.warning(
            "memory.health_changed",
            conversation=unescape(scope[2]),
            before=before.health.value,
            after=after.health.value,
        )


def _stored(row: asyncpg.Record | None) -> StoredRolling | None:
    if row is None:
        return None
    rolling = Rolling(
        summary=from_octets(row["summary"]),
        summary_trust=Trust.from_byte(row["summary_trust"]),
        folded_through=row["folded_through"],
        health=Health(row["health"]),
        failures=row["failures"],
        pending=tuple(
            SpilledRange(one["from"], one["to"], one["attempts"])
            for one in orjson.loads(row["pending"])
        ),
    )
    return StoredRolling(rolling, unescape(row["model"]), row["claim"], row["is_claimed"])
