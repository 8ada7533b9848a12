"""The SQL that reads approvals with what belongs to them: decisions, keys, consents, a lock.

An approval comes as a row for each of its decisions, oldest first, or as one row that has none.
Columns of what is joined to it have a prefix: `d_` of the decision, `k_` of a key, `p_` of a
passkey, `s_` of the session approval it gave, `c_` of its conversation. Every statement takes the
tenant first and sees nothing of another's.
"""

from __future__ import annotations

from typing import Final

from app.store.keys import passkeys


def _columns(prefix: str, names: str) -> str:
    return ", ".join(f"{prefix}.{name} AS {prefix}_{name}" for name in names.split())


def _filled(sql: str) -> str:
    for name, part in _PARTS.items():
        sql = sql.replace(name, part)
    return sql


_PARTS: Final = {
    "DECISION_COLUMNS": _columns(
        "d",
        "approver decision caller assurance key_id scope covered_capabilities override_args note "
        "reason sandbox_mode payload_sha256 effective_args_sha256 signed at",
    ),
    "KEY_COLUMNS": _columns(
        "k", "id tenant principal thumbprint public_jwk label created_at revoked_at"
    ),
    "CREDENTIAL_COLUMNS": passkeys.JOINED_COLUMNS,
    "SESSION_COLUMNS": _columns(
        "s",
        "conversation_id principal agent tool covered_capabilities tool_definition_digest "
        "approval_id at",
    ),
    "CONVERSATION_COLUMNS": _columns(
        "c",
        "id tenant principal participants title metadata head_seq head_hash tainted sealed_seq"
        " created_at",
    ),
    "ITS_DECISIONS": "LEFT JOIN decisions d ON d.tenant = a.tenant AND d.approval_id = a.id",
}

APPROVAL: Final = _filled("""
SELECT a.*, DECISION_COLUMNS FROM approvals a ITS_DECISIONS
WHERE a.tenant = $1 AND a.id = $2 ORDER BY d.seq""")

RUN_APPROVALS: Final = _filled("""
SELECT a.*, DECISION_COLUMNS FROM approvals a ITS_DECISIONS
WHERE a.tenant = $1 AND a.run_id = $2 ORDER BY a.requested_seq, d.seq""")

# Those that the principal ($2) can see as a party to the conversation or may decide ($5: roles,
# one that counts for each agent where two have a say).
APPROVALS: Final = _filled("""
SELECT a.*, DECISION_COLUMNS FROM (
    SELECT * FROM approvals a
    WHERE a.tenant = $1 AND ($2::text IS NULL OR a.principal = $2
            OR (a.roles && $5::text[] AND (a.card #> '{required,also_roles}' IS NULL
                OR ARRAY(SELECT json_array_elements_text(a.card #> '{required,also_roles}'))
                    && $5::text[]))
            OR $2 = ANY(a.programs) OR EXISTS (SELECT FROM conversations c
                WHERE c.id = a.conversation_id
                    AND (c.principal = $2 OR c.participants @> ARRAY[$2::text])))
        AND ($3::text IS NULL OR a.id < $3)
        AND ($6::text IS NULL OR a.status = $6)
        AND ($7::text IS NULL OR a.run_id = $7)
        AND ($8::text IS NULL OR a.conversation_id = $8)
    ORDER BY a.id DESC LIMIT $4
) a ITS_DECISIONS
ORDER BY a.id DESC, d.seq""")

# The approvals of a run ($3), and those behind the standing consents of its conversation ($2), each
# decision with the key or passkey it names.
CONSENTS: Final = _filled("""
SELECT a.*, DECISION_COLUMNS, KEY_COLUMNS, CREDENTIAL_COLUMNS, SESSION_COLUMNS
FROM approvals a ITS_DECISIONS
    LEFT JOIN approver_keys k ON k.tenant = d.tenant AND k.id = d.key_id
    LEFT JOIN passkeys p ON p.tenant = d.tenant AND p.id = d.key_id
    LEFT JOIN session_approvals s ON s.conversation_id = $2 AND s.approval_id = a.id
WHERE a.tenant = $1 AND a.conversation_id = $2 AND a.id IN (
    SELECT id FROM approvals WHERE run_id = $3
    UNION ALL SELECT approval_id FROM session_approvals WHERE conversation_id = $2)
ORDER BY a.requested_seq, d.seq""")

# The approval under the lock of its conversation, with a key ($3) or passkey ($4), and with what
# its run waits for. A nonce ($5) is taken for its payload ($6): the database decides whose it is,
# and a decision that is refused afterwards is rolled back with it.
# `seen_head` is what the statement's snapshot shows of a row that the lock may have waited for.
LOCK_APPROVAL: Final = _filled("""
WITH c AS MATERIALIZED (
    SELECT * FROM conversations WHERE tenant = $1 AND kind = 'user'
        AND id = (SELECT conversation_id FROM approvals WHERE tenant = $1 AND id = $2)
    FOR NO KEY UPDATE
), n AS (
    INSERT INTO nonces AS n (tenant, nonce, payload_sha256)
    SELECT tenant, $5::text, $6::text FROM c WHERE $5 IS NOT NULL
    ON CONFLICT (tenant, nonce) DO UPDATE SET payload_sha256 = n.payload_sha256
    RETURNING payload_sha256
)
SELECT a.*, DECISION_COLUMNS, KEY_COLUMNS, CREDENTIAL_COLUMNS, CONVERSATION_COLUMNS,
    s.head_seq AS seen_head,
    (SELECT r.id FROM runs r WHERE r.conversation_id = c.id AND r.ended_at IS NULL
        AND r.started_at IS NOT NULL LIMIT 1) AS c_active_run_id,
    ARRAY(SELECT w.id FROM approvals w WHERE w.run_id = a.run_id AND w.status = 'pending'
        UNION ALL SELECT w.id FROM questions w WHERE w.run_id = a.run_id AND w.status = 'pending')
        AS awaited,
    (SELECT payload_sha256 FROM n) AS nonce_of
FROM c JOIN conversations s ON s.id = c.id JOIN approvals a ON a.tenant = $1 AND a.id = $2
    ITS_DECISIONS
    LEFT JOIN approver_keys k ON k.tenant = $1 AND k.id = $3
    LEFT JOIN passkeys p ON p.tenant = $1 AND p.thumbprint = $4
ORDER BY d.seq""")
