"""The SQL of remembered grants, each with the passkey that signed it, and their rows as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from app.log.grants import GrantRecord, GrantUse
from app.policy.constraints import Constraint
from app.store.keys import passkeys
from app.store.texts import unescape
from app.trust.grant import Coverage

if TYPE_CHECKING:
    import asyncpg


def _found(condition: str) -> str:
    return _GRANTS.replace("CREDENTIAL_COLUMNS", passkeys.JOINED_COLUMNS) + condition


_GRANTS: Final = """
SELECT g.*, CREDENTIAL_COLUMNS
FROM grants g JOIN passkeys p ON p.tenant = g.tenant AND p.id = g.passkey_id
WHERE g.tenant = $1 AND """
ONE: Final = _found("g.id = $2")
PAGE: Final = _found("""g.principal = $2 AND ($3::text IS NULL OR g.id < $3)
ORDER BY g.id DESC LIMIT $4""")
LIVE: Final = _found("""g.principal = $2 AND g.agent = $3 AND g.expires_at > $4
    AND g.revoked_at IS NULL AND g.suspended_at IS NULL AND p.revoked_at IS NULL
ORDER BY g.id DESC""")
USES: Final = """
SELECT g.id AS grant_id, u.* FROM unnest($2::text[]) AS g(id) CROSS JOIN LATERAL (
    SELECT conversation_id, seq, run_id, call_id, at FROM grant_uses
    WHERE tenant = $1 AND grant_id = g.id
    ORDER BY at DESC, conversation_id DESC, seq DESC LIMIT $3
) u
ORDER BY u.at DESC, u.conversation_id DESC, u.seq DESC"""
USE_NONCE: Final = """
INSERT INTO nonces (tenant, nonce, payload_sha256) VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING RETURNING true"""


def record(row: asyncpg.Record) -> GrantRecord:
    """A row of grants with the `p_` columns of its passkey."""
    return GrantRecord(
        id=row["id"],
        coverage=Coverage(
            tenant=unescape(row["tenant"]),
            principal=unescape(row["principal"]),
            agent=unescape(row["agent"]),
            tool=unescape(row["tool"]),
            tool_definition_digest=row["tool_definition_digest"],
            capabilities=tuple(map(unescape, row["capabilities"])),
            constraints=tuple(Constraint(**each) for each in orjson.loads(row["constraints"])),
        ),
        coverage_hash=row["coverage_hash"],
        passkey=passkeys.record(row, "p_"),
        enrolled_at=row["enrolled_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        suspended_at=row["suspended_at"],
        evidence=row["evidence"],
    )


def use(row: asyncpg.Record) -> GrantUse:
    """A row of grant_uses."""
    return GrantUse(
        conversation_id=row["conversation_id"],
        seq=row["seq"],
        run_id=row["run_id"],
        call_id=unescape(row["call_id"]),
        at=row["at"],
    )
