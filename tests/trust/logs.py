"""A small sound log with one approval, and how it is exported, whole or tampered with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from app.trust.chain import GENESIS, ChainRecord, link
from app.trust.export import ExportedKey, ExportHeader, event_line, header_line
from app.trust.keys import derive_signing_key
from app.trust.seal import Seal, sign_seal
from tests.trust.decisions import APPROVE, KEY, signed

SERVICE = derive_signing_key(bytes(40))
ARGS = '{"body":"{}","url":"http://127.0.0.1:9000/orders"}'
ARGS_SHA256 = sha256(ARGS.encode()).hexdigest()

REQUESTED: dict[str, Any] = {
    "id": "appr_1",
    "status": "pending",
    "run_id": "run_1",
    "conversation_id": "conv_1",
    "turn_id": "turn_1",
    "request_id": "req_1",
    "tool": "http_post",
    "tool_definition_digest": "d" * 64,
    "args": json.loads(ARGS),
    "args_canonical": ARGS,
    "args_sha256": ARGS_SHA256,
    "missing_capabilities": ["arbitrary-egress", "mutate-external"],
    "risk": {"session_allowed": False, "sandbox_escalation": False, "idempotent": False},
    "required": {"count": 1, "assurance": "key"},
}
SIGNED: dict[str, Any] = APPROVE | {"args_sha256": ARGS_SHA256}
DECIDED: dict[str, Any] = {
    "approval_id": "appr_1",
    "call_id": "call_0_0",
    "decision": "approve",
    "approver": "alice",
    "caller": "alice",
    "assurance": "key",
    "key_id": "key_1",
    "scope": "once",
    "covered_capabilities": ["arbitrary-egress", "mutate-external"],
    "effective_args_sha256": ARGS_SHA256,
    "signed": True,
}
STARTED: dict[str, Any] = {
    "call_id": "call_0_0",
    "request_id": "req_1",
    "tool": "http_post",
    "args_sha256": ARGS_SHA256,
    "covered_by": {"kind": "decision", "id": "appr_1"},
}


@dataclass(frozen=True)
class Row:
    """One event before it has a place in a log."""

    type: str
    data: dict[str, Any]
    private: bytes | None = None
    run_id: str | None = None
    turn_id: str | None = None


ROWS = (
    Row("conversation.created", {"principal": "alice", "participants": []}),
    Row("approval.requested", REQUESTED),
    Row("approval.decided", DECIDED, signed(SIGNED).encode()),
    Row("tool.started", STARTED),
    Row("run.completed", {"steps": 2}, b"document"),
)


def body(row: Row, seq: int, conversation_id: str = "conv_1") -> bytes:
    event = {
        "conversation_id": conversation_id,
        "seq": seq,
        "run_id": row.run_id,
        "turn_id": row.turn_id,
        "type": row.type,
        "data": row.data,
    }
    return json.dumps(event).encode()


def records(rows: tuple[Row, ...] = ROWS) -> list[ChainRecord]:
    """The rows as a chained log, with a seal after the last one."""
    chained: list[ChainRecord] = []
    for row in rows:
        append(chained, row)
    append(chained, seal_row(chained, 1))
    return chained


def append(chained: list[ChainRecord], row: Row, conversation_id: str = "conv_1") -> None:
    seq = len(chained) + 1
    prev = chained[-1].hash if chained else GENESIS
    text = body(row, seq, conversation_id)
    chained.append(ChainRecord(seq, text, row.private, prev, link(prev, text, row.private)))


def seal_row(chained: list[ChainRecord], start: int, conversation_id: str = "conv_1") -> Row:
    """The seal over everything from `start` on."""
    last = chained[-1]
    seal = Seal(conversation_id, start, last.seq, last.seq - start + 1, last.hash.hex())
    data = {
        "from_seq": start,
        "through_seq": last.seq,
        "count": last.seq - start + 1,
        "root": last.hash.hex(),
        "kid": "seal-1",
        "signature": sign_seal(seal, key=SERVICE, kid="seal-1"),
    }
    return Row("log.sealed", data)


HEADER = ExportHeader(
    tenant="acme",
    conversation_id="conv_1",
    keys=[ExportedKey(id="key_1", public_jwk=KEY.jwk, principal="alice")],
    seal_keys=[{"kid": "seal-1", **SERVICE.public.jwk()}],
)


def lines(chained: list[ChainRecord], header: ExportHeader = HEADER) -> list[bytes]:
    """The export of those records."""
    return [header_line(header), *map(event_line, chained)]
