"""One request's writes: the port `Transaction`, on one connection, committed as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.log.queries import audit_scope
from app.log.records import ConversationRecord, DecisionClaims, StoredAnswer
from app.store.dispatch.own_wakes import GRACE, OwnWake
from app.store.dispatch.wakes import enqueue_wakes
from app.store.keys import passkeys
from app.store.keys.revocations import REVOKE, revoked
from app.store.log.append import Opening, Outcome, later_rounds, write, write_later_rounds
from app.store.log.numbering import Tail, numbered, whole_ms
from app.store.memory import turns as memory_turns
from app.store.rows import grants, idempotency, mcp_servers, records
from app.store.rows.approval_queries import LOCK_APPROVAL
from app.store.sessions import StoreSession
from app.store.texts import escape, json_text, unescape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from app.ids import Identity
    from app.log.envelope import Event, NewEvent
    from app.log.records import AgentRecord, KeyRecord, LockedApproval, PasskeyRecord
    from app.log.revocations import Revocation
    from app.log.servers import McpServerRecord
    from app.runctx.shapes import ArtifactRef, NewArtifact
    from app.runctx.skill import Skill, SkillCard
    from app.store.artifacts.bucket import Bucket
    from app.store.dispatch.own_wakes import OwnWakes
    from app.store.log.numbering import Batch, Sealer
    from app.store.server.connections import Connection

# `seen_head` is what the statement's snapshot shows of a row that the lock may have waited for.
_LOCK: Final = """
WITH l AS MATERIALIZED (
    SELECT * FROM conversations WHERE tenant = $1 AND id = $2 FOR NO KEY UPDATE
)
SELECT l.*, s.head_seq AS seen_head,
    (SELECT r.id FROM runs r WHERE r.conversation_id = l.id AND r.ended_at IS NULL
        AND r.started_at IS NOT NULL LIMIT 1) AS active_run_id
FROM l JOIN conversations s ON s.id = l.id"""

_OPEN_AUDIT_LOG: Final = """
WITH t AS (
    INSERT INTO tenants (id, created_at) VALUES ($1, $5) ON CONFLICT DO NOTHING
)
INSERT INTO conversations (id, tenant, kind, principal, participants, metadata, head_seq, head_hash,
    created_at)
VALUES ($2, $1, 'audit', '', '{}', '{}', $3, $4, $5) ON CONFLICT DO NOTHING"""

_REVOKE_LEASE: Final = """
UPDATE conversations SET lease_owner = NULL, lease_until = NULL,
    lease_generation = lease_generation + 1
WHERE tenant = $1 AND id = $2"""

_PUT_AGENT: Final = """
INSERT INTO agents (tenant, name, spec, digest, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant, name) DO UPDATE
    SET spec = excluded.spec, digest = excluded.digest, updated_at = excluded.updated_at"""
_DELETE_AGENT: Final = "DELETE FROM agents WHERE tenant = $1 AND name = $2 RETURNING true"

_LOCK_PRINCIPAL: Final = """
INSERT INTO principals AS p (tenant, id, created_at) VALUES ($1, $2, now())
ON CONFLICT (tenant, id) DO UPDATE SET id = p.id"""
_HAD_KEY: Final = """
SELECT EXISTS (SELECT FROM approver_keys
        WHERE tenant = $1 AND principal = $2 AND reset_at IS NULL)
    OR EXISTS (SELECT FROM passkeys
        WHERE tenant = $1 AND principal = $2 AND reset_at IS NULL)"""
_PUT_KEY: Final = """
INSERT INTO approver_keys (tenant, id, principal, thumbprint, public_jwk, label, created_at,
    revoked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant, thumbprint) DO NOTHING RETURNING true"""
_REVOKE_KEY: Final = """
UPDATE approver_keys SET revoked_at = $3
WHERE tenant = $1 AND id = $2 AND revoked_at IS NULL RETURNING true"""
_RESET_KEYS: Final = """
UPDATE approver_keys SET revoked_at = coalesce(revoked_at, $3), reset_at = $3
WHERE tenant = $1 AND principal = $2 AND reset_at IS NULL"""


class StoreTransaction(StoreSession):
    """One request's writes. `written` and `woken` are to be told after the commit."""

    def __init__(
        self,
        connection: Connection,
        tenant: str,
        *,
        seal: Sealer,
        own_wakes: OwnWakes,
        bucket: Bucket | None = None,
    ) -> None:
        super().__init__(connection, tenant, bucket)
        self._connection = connection
        self._seal = seal
        self._own_wakes = own_wakes
        self._locked: dict[str, Tail] = {}
        self._opening: dict[str, Opening] = {}
        self.written: list[Batch] = []
        self.woken: list[OwnWake] = []

    async def claim_key(
        self, principal: str, key: str, *, fingerprint: str, now: datetime
    ) -> StoredAnswer | None:
        """Claim an idempotency key, waiting up to 10 s for another sender of it.

        Returns the first answer when the key was used already. Raises IdempotencyMismatch or
        IdempotencyInProgress.
        """
        name = (self._tenant, escape(principal), escape(key))
        return await idempotency.claim(self._connection, name, fingerprint=fingerprint, now=now)

    async def save_answer(self, principal: str, key: str, answer: StoredAnswer) -> None:
        """Keep the answer beside the claimed key."""
        name = (self._tenant, escape(principal), escape(key))
        await idempotency.save(self._connection, name, answer)

    async def lock(self, conversation_id: str) -> ConversationRecord | None:
        """The conversation, locked against every other writer until the end of the block."""
        row = await self._lock(conversation_id)
        return None if row is None or row["kind"] != "user" else records.conversation(row)

    async def lock_approval(
        self, approval_id: str, claims: DecisionClaims | None = None
    ) -> LockedApproval | None:
        """The approval under its conversation's lock, with the key, passkey and nonce claimed."""
        claims = claims or DecisionClaims()
        asked = (
            escape(approval_id),
            None if claims.key_id is None else escape(claims.key_id),
            claims.passkey,
            claims.nonce,
            claims.payload_sha256,
        )
        rows = await self._rows(LOCK_APPROVAL, *asked)
        if rows and rows[0]["seen_head"] != rows[0]["c_head_seq"]:
            # The lock was waited for, so the rest was seen as it was before. Now it is ours.
            rows = await self._rows(LOCK_APPROVAL, *asked)
        if not rows:
            return None
        self._hold(rows[0]["c_id"], rows[0], "c_")
        return records.locked_approval(rows)

    async def create_conversation(self, conversation_id: str, *, now: datetime) -> None:
        """A new, empty, locked conversation; its `conversation.created` must follow at once.

        The row is inserted together with that event.
        """
        self._opening[conversation_id] = Opening(self._tenant, whole_ms(now))

    async def append(
        self, conversation_id: str, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        """Append to a conversation locked in this block, with every projection."""
        return await self._append(conversation_id, events, now=now)

    async def _append(
        self,
        conversation_id: str,
        events: Sequence[NewEvent],
        *,
        now: datetime,
        seals: bool = False,
    ) -> list[Event]:
        opening = self._opening.pop(conversation_id, None)
        tail = Tail() if opening else self._locked.get(conversation_id)
        if tail is None:
            raise RuntimeError(f"{conversation_id!r} must be locked before it is appended to")
        batch = numbered(conversation_id, tail, [(events, now)], seal=self._seal, always=seals)
        answers = await write(self._connection, [batch], opening)
        if answers[conversation_id].outcome is not Outcome.DONE:
            raise RuntimeError(f"{conversation_id!r} moved although it was locked")
        later = later_rounds([batch], opened=opening is not None)
        await write_later_rounds(self._connection, [conversation_id], later)
        self._locked[conversation_id] = batch.after
        self.written.append(batch)
        return list(batch.events[: len(events)])

    async def append_audit(self, events: Sequence[NewEvent], *, now: datetime) -> None:
        """Append to the tenant's own log, which is opened on first use and sealed each time.

        No turn ever ends there, and what it holds is rare.
        """
        conversation_id = audit_scope(unescape(self._tenant)).conversation_id
        if conversation_id not in self._locked and await self._lock(conversation_id) is None:
            await self._connection.execute(
                _OPEN_AUDIT_LOG, self._tenant, conversation_id, 0, Tail().hash, whole_ms(now)
            )
            await self._lock(conversation_id)
        await self._append(conversation_id, events, now=now, seals=True)

    async def wake(self, conversation_id: str) -> None:
        """Enqueue the conversation for whichever worker is free; part of the transaction."""
        if not self._own_wakes.have_room:
            await enqueue_wakes(self._connection, [conversation_id])
            return
        jobs = await enqueue_wakes(self._connection, [conversation_id], after=GRACE)
        self.woken += [OwnWake(conversation_id, job) for job in jobs]

    async def revoke_lease(self, conversation_id: str) -> None:
        """Take a locked conversation from whichever worker drives it: its appends fail from now."""
        await self._connection.execute(_REVOKE_LEASE, self._tenant, conversation_id)

    async def put_artifact(self, identity: Identity, new: NewArtifact) -> tuple[ArtifactRef, bool]:
        """Keep a staged file; with False its scope has it already, and only its trust is joined."""
        return await self._artifacts.keep(identity, new)

    async def delete_artifact(self, artifact: ArtifactRef) -> None:
        """Let go of an artifact for good."""
        await self._artifacts.delete(artifact.identity, artifact.id)

    async def forget_memory(self, identity: Identity, *, run: str | None = None) -> None:
        """Forget what was remembered of the session in whichever way, or the turn of one run."""
        scope = memory_turns.scope_of(identity)
        if run is not None:
            await memory_turns.forget_run(self._connection, scope, run)
            return
        await memory_turns.hold(self._connection, scope)
        await memory_turns.forget(self._connection, scope)

    async def put_agent(self, agent: AgentRecord) -> None:
        """Create or replace the agent; `created_at` stays that of the first."""
        await self._connection.execute(
            _PUT_AGENT,
            self._tenant,
            agent.name,
            json_text(agent.spec),
            agent.digest,
            agent.created_at,
            agent.updated_at,
        )

    async def delete_agent(self, name: str) -> bool:
        """Whether there was such an agent."""
        return bool(await self._connection.fetchval(_DELETE_AGENT, self._tenant, escape(name)))

    async def add_mcp_server(self, server: McpServerRecord) -> bool:
        """Add a server; False when there is one of its name."""
        added = mcp_servers.added(self._tenant, server)
        return bool(await self._connection.fetchval(mcp_servers.ADD, *added))

    async def pin_mcp_server(self, server: McpServerRecord) -> bool:
        """Pin what a server said; False when it was changed since that version was read."""
        pinned = mcp_servers.pinned(self._tenant, server)
        return bool(await self._connection.fetchval(mcp_servers.PIN, *pinned))

    async def delete_mcp_server(self, name: str) -> bool:
        """Whether there was such a server."""
        return bool(await self._connection.fetchval(mcp_servers.DELETE, self._tenant, name))

    async def begin_skills_revision(self) -> tuple[int, int]:
        """Keep all others from writing skills; the next revision, and how many skills there are."""
        return await self._skills.begin_revision()

    async def add_skill(self, skill: Skill, files: Mapping[str, bytes]) -> None:
        """Add a revision of a skill, the revision being the one begun."""
        await self._skills.add(skill, files)

    async def delete_skill(self, card: SkillCard) -> None:
        """End a skill; the card's revision and time are those of its end."""
        await self._skills.delete(card)

    async def lock_principal(self, principal: str) -> None:
        """Serialise changes to one principal's keys until the end of the block."""
        await self._connection.execute(_LOCK_PRINCIPAL, self._tenant, escape(principal))

    async def had_key(self, principal: str) -> bool:
        """Whether the principal has had a key or passkey since the last reset."""
        return bool(await self._connection.fetchval(_HAD_KEY, self._tenant, escape(principal)))

    async def put_key(self, key: KeyRecord) -> bool:
        """Add a key; False when its thumbprint belongs to another principal or exists already."""
        added = await self._connection.fetchval(
            _PUT_KEY,
            self._tenant,
            key.id,
            escape(key.principal),
            key.thumbprint,
            json_text(key.public_jwk),
            escape(key.label),
            key.created_at,
            key.revoked_at,
        )
        return bool(added)

    async def revoke_key(self, key_id: str, *, now: datetime) -> bool:
        """Whether the key was there and active."""
        revoked = await self._connection.fetchval(_REVOKE_KEY, self._tenant, escape(key_id), now)
        return bool(revoked)

    async def revoke_tokens(self, revocation: Revocation) -> None:
        """Refuse such tokens from now on."""
        await self._connection.execute(REVOKE, *revoked(self._tenant, revocation))

    async def reset_keys(self, principal: str, *, now: datetime) -> None:
        """Revoke all keys and passkeys of the principal and forget that there were any."""
        for reset in (_RESET_KEYS, passkeys.RESET):
            await self._connection.execute(reset, self._tenant, escape(principal), now)

    async def put_passkey(self, passkey: PasskeyRecord) -> bool:
        """Add a passkey; False when its credential is registered already."""
        return await self._did(passkeys.PUT, *passkeys.values(passkey))

    async def revoke_passkey(self, passkey_id: str, *, now: datetime) -> bool:
        """Whether the passkey was there and active."""
        return await self._did(passkeys.REVOKE, escape(passkey_id), now)

    async def count_passkey(self, passkey_id: str, sign_count: int) -> bool:
        """Note a passkey's use; False when its counter does not advance so."""
        return await self._did(passkeys.COUNT, passkey_id, sign_count)

    async def use_nonce(self, nonce: str, payload_sha256: str) -> bool:
        """Take the nonce of a signed text for good; False when it was used before."""
        return await self._did(grants.USE_NONCE, nonce, payload_sha256)

    async def _did(self, statement: str, *values: object) -> bool:
        return bool(await self._connection.fetchval(statement, self._tenant, *values))

    async def _lock(self, conversation_id: str) -> asyncpg.Record | None:
        where = (self._tenant, escape(conversation_id))
        row = await self._connection.fetchrow(_LOCK, *where)
        if row is not None and row["seen_head"] != row["head_seq"]:
            # The lock was waited for, so the rest was seen as it was before. Now it is ours.
            row = await self._connection.fetchrow(_LOCK, *where)
        if row is not None:
            self._hold(conversation_id, row)
        return row

    def _hold(self, conversation_id: str, row: asyncpg.Record, prefix: str = "") -> None:
        """Remember that a conversation is locked, and where its log ends."""
        self._locked[conversation_id] = Tail.of(row, prefix)
