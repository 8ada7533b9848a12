"""Whole logs as they are stored, of any tenant, for those who check or export them.

A log is read in one snapshot, row by row. What the rows say beside the hashed bytes is held against
these bytes here, for no export carries it: the columns that queries look at, and the head that the
next event will follow.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from app.log.envelope import wire_time
from app.policy.taint import Trust
from app.store.keys.passkeys import OF_LOG
from app.store.keys.service_keys import ALL as _SERVICE_KEYS
from app.store.texts import searchable, unescape, unescape_if_any
from app.trust import base64url
from app.trust.chain import ChainRecord
from app.trust.export import ExportedKey, ExportedPasskey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import asyncpg

    from app.store.server.connections import Connection
    from app.store.server.row_security import EveryTenant

_NAMES: Final = "SELECT id FROM conversations ORDER BY id"
_LOG: Final = "SELECT tenant, head_seq, head_hash FROM conversations WHERE id = $1"
_EVENTS: Final = """
SELECT tenant, seq, run_id, turn_id, step, type, trust, at, data::text AS data, body, private,
    prev_hash, hash
FROM events WHERE conversation_id = $1 ORDER BY seq"""
_KEYS: Final = """
SELECT id, principal, public_jwk FROM approver_keys
WHERE tenant = $1 AND id IN (
    SELECT data->>'key_id' FROM events WHERE conversation_id = $2 AND type = 'approval.decided')
ORDER BY id"""
_PREFETCH: Final = 500


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A link of the chain, and the columns of its row that say something else than its body."""

    record: ChainRecord
    wrong_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredLog:
    """One log within a snapshot; `head` is the seq and the hash that the next event follows."""

    conversation_id: str
    tenant: str
    head: tuple[int, bytes]
    keys: tuple[ExportedKey, ...]
    service_keys: tuple[dict[str, str], ...]
    passkeys: tuple[ExportedPasskey, ...]
    connection: Connection

    async def events(self) -> AsyncIterator[StoredEvent]:
        """Every event from the first on."""
        tenant = self.tenant
        async for row in self.connection.cursor(_EVENTS, self.conversation_id, prefetch=_PREFETCH):
            record = ChainRecord(
                row["seq"], row["body"], row["private"], row["prev_hash"], row["hash"]
            )
            yield StoredEvent(record, tuple(_wrong_columns(row, tenant)))


class StoredLogs:
    """The logs of a database."""

    def __init__(self, everyone: EveryTenant) -> None:
        self._everyone = everyone

    async def names(self) -> list[str]:
        """The ids of all conversations, and of the tenants' own logs. Raises StoreUnavailable."""
        async with self._everyone.borrowed() as connection:
            return [row["id"] for row in await connection.fetch(_NAMES)]

    @asynccontextmanager
    async def opened(self, conversation_id: str) -> AsyncIterator[StoredLog | None]:
        """A log as it is now; None if there is none of that id. Raises StoreUnavailable."""
        async with self._everyone.transaction(
            isolation="repeatable_read", readonly=True
        ) as connection:
            row = await connection.fetchrow(_LOG, conversation_id)
            if row is None:
                yield None
                return
            keys = await connection.fetch(_KEYS, row["tenant"], conversation_id)
            passkeys = await connection.fetch(OF_LOG, row["tenant"], conversation_id)
            service_keys = await connection.fetch(_SERVICE_KEYS)
            yield StoredLog(
                conversation_id,
                unescape(row["tenant"]),
                (row["head_seq"], row["head_hash"]),
                tuple(_key(key) for key in keys),
                tuple(
                    {**orjson.loads(key["public_jwk"]), "kid": key["kid"]} for key in service_keys
                ),
                tuple(_passkey(passkey) for passkey in passkeys),
                connection,
            )


def _key(row: asyncpg.Record) -> ExportedKey:
    return ExportedKey(
        id=row["id"],
        public_jwk=orjson.loads(row["public_jwk"]),
        principal=unescape(row["principal"]),
    )


def _passkey(row: asyncpg.Record) -> ExportedPasskey:
    return ExportedPasskey(
        id=row["id"],
        credential_id=base64url.encode(row["credential_id"]),
        public_key=base64url.encode(row["public_key"]),
        rp_id=row["rp_id"],
        principal=unescape(row["principal"]),
    )


def _wrong_columns(row: asyncpg.Record, tenant: str) -> Iterator[str]:
    """The names of the columns that differ from the event in `body`."""
    try:
        event: dict[str, Any] = json.loads(row["body"])
        # Compared as values: jsonb spells numbers and orders members in its own way.
        data = json.loads(searchable(json.dumps(event["data"])))
    except (ValueError, KeyError, TypeError):
        yield "body"
        return
    found = {
        "tenant": unescape(row["tenant"]),
        "run_id": unescape_if_any(row["run_id"]),
        "turn_id": unescape_if_any(row["turn_id"]),
        "step": row["step"],
        "type": row["type"],
        "trust": Trust(row["trust"]).wire,
        "at": wire_time(row["at"]),
        "data": json.loads(row["data"]),
    }
    for name, value in found.items():
        expected = {"tenant": tenant, "data": data}.get(name, event.get(name))
        if value != expected:
            yield name
