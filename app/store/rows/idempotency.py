"""Idempotency keys: the first request with a key has an effect, the others get its answer."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import asyncpg
import orjson

from app.errors import IdempotencyInProgress, IdempotencyMismatch
from app.log.records import StoredAnswer
from app.store.texts import json_text, unescape

if TYPE_CHECKING:
    from datetime import datetime

    from app.store.server.connections import Connection

    # Tenant, principal and key, as they are stored.
    KeyName = tuple[str, str, str]

KEY_LIFETIME: Final = timedelta(hours=24)

# Waits for a concurrent sender of the key. One that is over, or has no answer, is taken anew.
_CLAIM: Final = """
INSERT INTO idempotency_keys AS k (tenant, principal, key, fingerprint, created_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, principal, key) DO UPDATE SET fingerprint = excluded.fingerprint,
    created_at = excluded.created_at, status = NULL, headers = NULL, body = NULL
    WHERE k.created_at <= $6 OR k.status IS NULL
RETURNING true"""
_FIRST: Final = """
SELECT fingerprint, status, headers, body FROM idempotency_keys
WHERE tenant = $1 AND principal = $2 AND key = $3"""
_SAVE: Final = """
UPDATE idempotency_keys SET status = $4, headers = $5, body = $6
WHERE tenant = $1 AND principal = $2 AND key = $3"""


async def claim(
    connection: Connection, name: KeyName, *, fingerprint: str, now: datetime
) -> StoredAnswer | None:
    """Claim the key; the first answer when it was used already.

    Raises IdempotencyMismatch for another request, IdempotencyInProgress after the lock timeout.
    """
    key = unescape(name[2])
    try:
        claimed = await connection.fetchval(_CLAIM, *name, fingerprint, now, now - KEY_LIFETIME)
    except asyncpg.exceptions.LockNotAvailableError as error:
        raise IdempotencyInProgress(
            f"the request that uses key {key!r} has not been answered yet"
        ) from error
    if claimed:
        return None
    first = await connection.fetchrow(_FIRST, *name)
    if first is None or first["fingerprint"] != fingerprint:
        raise IdempotencyMismatch(f"key {key!r} was used for another request")
    return StoredAnswer(first["status"], orjson.loads(first["headers"]), first["body"])


async def save(connection: Connection, name: KeyName, answer: StoredAnswer) -> None:
    """Keep the answer beside the claimed key."""
    headers = json_text(answer.headers)
    await connection.execute(_SAVE, *name, answer.status, headers, answer.body)
