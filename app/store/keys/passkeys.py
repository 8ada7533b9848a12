"""The SQL of passkeys, and their rows as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.log.records import PasskeyRecord
from app.store.texts import escape, unescape

if TYPE_CHECKING:
    import asyncpg

_COLUMNS: Final = (
    "id tenant principal thumbprint credential_id public_key rp_id sign_count label created_at "
    "revoked_at"
)
# What `record` reads of a passkey `p` that is joined to something else.
JOINED_COLUMNS: Final = ", ".join(f"p.{name} AS p_{name}" for name in _COLUMNS.split())
ONE: Final = "SELECT * FROM passkeys WHERE tenant = $1 AND id = $2"
OF_CREDENTIAL: Final = "SELECT * FROM passkeys WHERE tenant = $1 AND thumbprint = $2"
PAGE: Final = """
SELECT * FROM passkeys
WHERE tenant = $1 AND principal = $2 AND ($3::text IS NULL OR id < $3)
ORDER BY id DESC LIMIT $4"""
PUT: Final = """
INSERT INTO passkeys (tenant, id, principal, thumbprint, credential_id, public_key, rp_id,
    sign_count, label, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (tenant, thumbprint) DO NOTHING RETURNING true"""
REVOKE: Final = """
UPDATE passkeys SET revoked_at = $3
WHERE tenant = $1 AND id = $2 AND revoked_at IS NULL RETURNING true"""
# Two assertions that come at once with one count cannot both advance it.
COUNT: Final = """
UPDATE passkeys SET sign_count = $3
WHERE tenant = $1 AND id = $2 AND (sign_count < $3 OR (sign_count = 0 AND $3 = 0))
RETURNING true"""
RESET: Final = """
UPDATE passkeys SET revoked_at = coalesce(revoked_at, $3), reset_at = $3
WHERE tenant = $1 AND principal = $2 AND reset_at IS NULL"""
OF_LOG: Final = """
SELECT * FROM passkeys
WHERE tenant = $1 AND id IN (
    SELECT coalesce(data->>'key_id', data->>'passkey_id') FROM events WHERE conversation_id = $2
        AND type IN ('approval.decided', 'grant.enrolled', 'grant.revoked'))
ORDER BY id"""


def record(row: asyncpg.Record, prefix: str = "") -> PasskeyRecord:
    """A row of passkeys, or columns of one under a prefix."""
    return PasskeyRecord(
        id=row[f"{prefix}id"],
        tenant=unescape(row[f"{prefix}tenant"]),
        principal=unescape(row[f"{prefix}principal"]),
        thumbprint=row[f"{prefix}thumbprint"],
        credential_id=row[f"{prefix}credential_id"],
        public_key=row[f"{prefix}public_key"],
        rp_id=row[f"{prefix}rp_id"],
        sign_count=row[f"{prefix}sign_count"],
        label=unescape(row[f"{prefix}label"]),
        created_at=row[f"{prefix}created_at"],
        revoked_at=row[f"{prefix}revoked_at"],
    )


def values(passkey: PasskeyRecord) -> tuple[object, ...]:
    """The parameters of `PUT` after the tenant."""
    return (
        passkey.id,
        escape(passkey.principal),
        passkey.thumbprint,
        passkey.credential_id,
        passkey.public_key,
        passkey.rp_id,
        passkey.sign_count,
        escape(passkey.label),
        passkey.created_at,
    )
