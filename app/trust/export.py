"""An exported log: its format, and the verifier that needs nothing but the file.

JSON lines. The first names the log and brings the public keys; each further line is one event, with
the exact bytes that were hashed. The keys are the file's own word: whoever verifies compares the
seal keys with those that the service publishes.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from app.engine.json.arguments import sha256_hex
from app.trust import base64url
from app.trust.answer_evidence import AnswerEvidence
from app.trust.chain import GENESIS, ChainRecord, verify_chain
from app.trust.documents import FirstVersion, match_model, read_model
from app.trust.evidence import ApproverKey, ApproverPasskey, Evidence
from app.trust.grant_evidence import GrantEvidence
from app.trust.keys import P256Key, read_key_set, read_public_jwk
from app.trust.mutation import Mutation, verify_mutation
from app.trust.passkey import Passkey
from app.trust.refusal import Refused
from app.trust.seal import Seal, verify_seal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Arguments may nest 64 levels, and an event puts a few of its own around them.
_EVENT_DEPTH: Final = 80
_HASH = r"^[0-9a-f]{64}$"


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class ExportedKey(_Line):
    """An approver key that the log's decisions name."""

    id: str
    public_jwk: dict[str, str]
    principal: str


class ExportedPasskey(_Line):
    """A passkey that the log's decisions or grants name; its bytes are base64url."""

    id: str
    credential_id: str
    public_key: str
    rp_id: str
    principal: str


class ExportHeader(_Line):
    """The first line of an export."""

    format: FirstVersion = 1
    kind: Literal["turngate.export"] = "turngate.export"
    tenant: str
    conversation_id: str
    keys: list[ExportedKey]
    seal_keys: list[dict[str, str]]
    """Public JWKs of the service, each with its `kid`, for its seals and its statements."""
    passkeys: list[ExportedPasskey] = Field(default=[], exclude_if=lambda passkeys: not passkeys)


class _EventLine(_Line):
    seq: int
    body: str
    private: str | None
    prev_hash: Annotated[str, Field(pattern=_HASH)]
    hash: Annotated[str, Field(pattern=_HASH)]


class _Envelope(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    conversation_id: str
    seq: int
    run_id: str | None = None
    turn_id: str | None = None
    type: str
    data: dict[str, Any]


# No conversation's id begins so.
_TENANTS_LOG: Final = "audit_"

# What stands in a log where a turn ends, and is sealed with it (service.md 6).
_TURN_ENDS: Final = frozenset({"run.paused", "run.completed", "run.failed", "run.cancelled"})


class _Sealed(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    from_seq: int
    through_seq: int
    count: int
    root: str
    kid: str
    signature: str


class _Worker(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    call_id: str


class _Mutated(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    worker: _Worker | None = None
    call_id: str
    tool: str
    kind: str
    original_sha256: str
    rule: str
    mutated_sha256: str = ""
    kid: str = ""
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not hold, and the line or event it was found at."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was looked at; the log is sound when there are no findings.

    The last `unsealed` events are covered by no seal yet: anybody could have written them.
    """

    events: int
    decisions: int
    findings: list[Finding]
    unsealed: int = 0


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The file is no export at all."""

    detail: str


def header_line(header: ExportHeader) -> bytes:
    """The first line of an export, with its line feed."""
    return header.model_dump_json().encode() + b"\n"


def event_line(record: ChainRecord) -> bytes:
    """The line of one event, with its line feed."""
    private = None if record.private is None else b64encode(record.private).decode()
    line = {
        "seq": record.seq,
        "body": b64encode(record.body).decode(),
        "private": private,
        "prev_hash": record.prev_hash.hex(),
        "hash": record.hash.hex(),
    }
    return orjson.dumps(line) + b"\n"


def verify_export(lines: Iterable[bytes]) -> Report | Unreadable:
    """Hash chain, seals and every signature of an export, from its lines alone."""
    rest = iter(lines)
    header = read_model(ExportHeader, next(rest, b""))
    if isinstance(header, Refused):
        return Unreadable(f"the first line: {header.reason}")
    keys = _approver_keys(header.keys)
    seal_keys = read_key_set(orjson.dumps({"keys": header.seal_keys}))
    if isinstance(keys, Unreadable):
        return keys
    if isinstance(seal_keys, Refused):
        return Unreadable(seal_keys.reason)
    own = {kid: key for kid, key in seal_keys.items() if isinstance(key, P256Key)}
    answers = AnswerEvidence(header.tenant, header.conversation_id, own)
    passkeys = {each.id: _passkey(each) for each in header.passkeys}
    evidence = Evidence(header.tenant, keys, passkeys)
    grants = GrantEvidence(header.tenant, passkeys, own)
    # Nothing vouches for the tenant of the header; every event names its conversation.
    is_tenants = header.conversation_id.startswith(_TENANTS_LOG)
    audit = _Audit(header.conversation_id, is_tenants, evidence, answers, grants, own)
    findings = [found for at, line in enumerate(rest, 2) for found in audit.findings(at, line)]
    findings += audit.unsealed()
    return Report(len(audit.hashes), audit.evidence.decisions, findings, audit.since_seal)


@dataclass(slots=True)
class _Audit:
    """The state of one pass over the events; what is broken is told once and then passed over."""

    conversation_id: str
    is_tenants: bool
    evidence: Evidence
    answers: AnswerEvidence
    grants: GrantEvidence
    seal_keys: Mapping[str, P256Key]
    hashes: dict[int, bytes] = field(default_factory=dict)
    seq: int = 0
    head: bytes = GENESIS
    sealed_through: int = 0
    since_seal: int = 0
    last_end: int = 0

    def findings(self, at: int, line: bytes) -> Iterator[Finding]:
        """What does not hold about the event on line `at`."""
        record = _read_record(line)
        if isinstance(record, str):
            yield Finding(f"line {at}", record)
            return
        where = f"seq {record.seq}"
        if broken := verify_chain([record], prev=self.head, after=self.seq):
            yield Finding(where, broken.what)
        self.seq, self.head = record.seq, record.hash
        event = self._read_event(record)
        if isinstance(event, str):
            yield Finding(where, event)
        elif problem := self._problem(event, record):
            yield Finding(where, problem)
        self.hashes[record.seq] = record.hash

    def unsealed(self) -> Iterator[Finding]:
        """What should be sealed and is not: whoever rewrites a log cannot seal it."""
        if self.last_end:
            what = "entry of the tenant's log" if self.is_tenants else "end of a turn"
            yield Finding(f"seq {self.last_end}", f"no seal covers this {what}")

    def _read_event(self, record: ChainRecord) -> _Envelope | str:
        event = read_model(_Envelope, record.body, max_depth=_EVENT_DEPTH)
        if isinstance(event, Refused):
            return f"body: {event.reason}"
        if (event.conversation_id, event.seq) != (self.conversation_id, record.seq):
            return "the body is of another place or another conversation"
        return event

    def _problem(self, event: _Envelope, record: ChainRecord) -> str | None:
        self.since_seal += 1
        # Older releases did not seal a tenant's own log: it need be from the first seal on.
        if event.type in _TURN_ENDS or (self.is_tenants and self.sealed_through):
            self.last_end = record.seq
        match event.type:
            case "log.sealed":
                # A seal that does not hold is told as such, and once.
                self.last_end = self.since_seal = 0
                sealed = match_model(_Sealed, event.data)
                if isinstance(sealed, Refused):
                    return sealed.reason
                return self._seal_problem(sealed, at=record.seq)
            case "dispatch.mutated":
                mutated = match_model(_Mutated, event.data)
                if isinstance(mutated, Refused):
                    return mutated.reason
                return self._mutation_problem(event, mutated, record.private)
            case "question.asked" | "question.answered":
                return self.answers.problem(event.type, event.data, record.private)
            case "approval.requested" | "approval.decided" | "tool.started":
                return self.evidence.problem(event.type, event.data, record.private)
            case _:
                return self.grants.problem(event.type, event.data, record.private)

    def _mutation_problem(
        self, event: _Envelope, mutated: _Mutated, private: bytes | None
    ) -> str | None:
        if private is not None and sha256_hex(private) != mutated.mutated_sha256:
            return "mutated_sha256 is not the digest of what the call became"
        mutation = Mutation(
            tenant=self.evidence.tenant,
            conversation_id=self.conversation_id,
            run_id=event.run_id or "",
            turn_id=event.turn_id or "",
            worker="" if mutated.worker is None else mutated.worker.call_id,
            **mutated.model_dump(exclude={"worker", "kid", "signature"}),
        )
        refused = verify_mutation(
            mutation, signature=mutated.signature, kid=mutated.kid, keys=self.seal_keys
        )
        return f"the mutation is not the service's: {refused.reason}" if refused else None

    def _seal_problem(self, sealed: _Sealed, *, at: int) -> str | None:
        root = self.hashes.get(sealed.through_seq)
        if root is None or root.hex() != sealed.root:
            return "the root of the seal is not the hash of its last event"
        start, self.sealed_through = self.sealed_through + 1, sealed.through_seq
        if sealed.from_seq != start or sealed.count != sealed.through_seq - start + 1:
            return "the seal does not follow the one before it"
        # The place of the seal itself is under no signature: what is put before it is not covered.
        if sealed.through_seq != at - 1:
            return "the seal does not reach to the event before it"
        if sealed.kid not in self.seal_keys:
            return "the key of the seal is not in the export"
        seal = Seal(
            self.conversation_id, sealed.from_seq, sealed.through_seq, sealed.count, sealed.root
        )
        refused = verify_seal(seal, signature=sealed.signature, kid=sealed.kid, keys=self.seal_keys)
        return f"the seal does not hold: {refused.reason}" if refused else None


def _approver_keys(exported: Iterable[ExportedKey]) -> dict[str, ApproverKey] | Unreadable:
    keys: dict[str, ApproverKey] = {}
    for each in exported:
        key = read_public_jwk(each.public_jwk)
        if isinstance(key, Refused):
            return Unreadable(f"key {each.id!r}: {key.reason}")
        keys[each.id] = ApproverKey(key, each.principal)
    return keys


def _passkey(exported: ExportedPasskey) -> ApproverPasskey:
    # What is no base64url is no credential's either, so no assertion holds under it.
    credential_id = base64url.decode(exported.credential_id) or b""
    public_key = base64url.decode(exported.public_key) or b""
    return ApproverPasskey(Passkey(credential_id, public_key, exported.rp_id), exported.principal)


def _read_record(line: bytes) -> ChainRecord | str:
    read = read_model(_EventLine, line)
    if isinstance(read, Refused):
        return read.reason
    try:
        body = _decoded(read.body)
        private = None if read.private is None else _decoded(read.private)
    except ValueError:
        return "body and private must be base64"
    hashes = bytes.fromhex(read.prev_hash), bytes.fromhex(read.hash)
    return ChainRecord(read.seq, body, private, *hashes)


def _decoded(text: str) -> bytes:
    """The bytes that have just this base64. Raises ValueError; Python's own reads it leniently."""
    found = b64decode(text, validate=True)
    if b64encode(found).decode() != text:
        raise ValueError("bits are set that stand for nothing")
    return found
