"""Remembered grants: enrolled and revoked with the principal's passkey, suspended by an admin.

What a ceremony signs is made here and stored nowhere before it is signed: everything in it is
checked again, against the tenant as it is then (turn.md 6.8, service.md 5). Whether a grant serves
a call is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from app.engine.json.arguments import sha256_hex
from app.log.envelope import NewEvent, wire_time
from app.log.grants import GrantEnrolled, GrantResource, GrantRevoked, GrantSuspended
from app.service.grants.rules import GrantRules, lifetime_faults, refusal
from app.service.keys.assertions import own_passkey
from app.service.refusals import FieldFault, GrantEnded, NotFound
from app.trust.grant import (
    Coverage,
    GrantConstraint,
    GrantPayload,
    RevocationPayload,
    Signable,
    build_grant,
    build_revocation,
    canonical_text,
    lapse,
    read_signed,
    revocation_mismatch,
)
from app.trust.refusal import Refused
from app.trust.statement import StatementKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from app.log.grants import GrantRecord, GrantUse
    from app.log.payload import Payload
    from app.log.queries import Page
    from app.log.records import PasskeyRecord
    from app.policy.constraints import Constraint
    from app.service.agents.tool_listing import ToolCatalogue
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Session, Transaction
    from app.service.refusals import GrantInvalid
    from app.service.statements import Statements

_P = TypeVar("_P", GrantPayload, RevocationPayload)

USES_OF_ONE: Final = 100
USES_IN_LISTS: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantRequest:
    """What a principal wants to grant, and for how long; `agent` is the routine."""

    agent: str
    tool: str
    capabilities: tuple[str, ...]
    constraints: tuple[GrantConstraint, ...]
    expires_in_s: int


@dataclass(frozen=True, slots=True)
class ShownGrant:
    """A grant, and where it let a call run, newest first."""

    grant: GrantRecord
    uses: tuple[GrantUse, ...] = ()


class Grants:
    """The caller's own grants; an administrator may stop anybody's."""

    def __init__(
        self,
        clock: Clock,
        statements: Statements,
        *,
        catalogue: ToolCatalogue,
        origins: Collection[str],
    ) -> None:
        self._clock = clock
        self._statements = statements
        self._rules = GrantRules(catalogue)
        self._origins = origins

    async def prepare(self, session: Session, caller: Caller, request: GrantRequest) -> str:
        """The text that enrols the grant once it is signed. Raises GrantInvalid."""
        now = self._clock.now_s()
        digest = await self._rules.digest(session, request.agent, request.tool)
        coverage = _coverage(caller, request, digest)
        if faults := [*lifetime_faults(request.expires_in_s, "/expires_in_s")]:
            raise refusal(*faults)
        await self._rules.check(session, coverage)
        expires_at = now + request.expires_in_s
        payload = build_grant(coverage, expires_at=expires_at, nonce=self._clock.nonce(), now=now)
        return canonical_text(payload)

    async def enrol(self, tx: Transaction, caller: Caller, proof: object) -> ShownGrant:
        """Enrol what was signed. Raises GrantInvalid."""
        read = _read(GrantPayload, proof)
        _own("tenant", read.payload.tenant, caller.tenant)
        _own("principal", read.payload.principal, caller.principal)
        passkey = await self._signed(tx, caller, read)
        coverage, expires_at = read.payload.coverage, read.payload.expires_at
        if faults := [*lifetime_faults(expires_at - read.payload.iat, "/expires_at")]:
            raise refusal(*faults)
        await self._rules.check(tx, coverage)
        grant_id = self._clock.mint("grant")
        resource = _resource(grant_id, coverage, _time(expires_at))
        enrolled = GrantEnrolled(resource=resource, by=caller.principal, passkey_id=passkey.id)
        await self._note(tx, enrolled, read.proof.evidence)
        return ShownGrant(await _existing(tx, grant_id))

    async def page(self, session: Session, caller: Caller, page: Page) -> list[ShownGrant]:
        """The caller's grants, newest first, ended ones included."""
        grants = await session.grants(caller.principal, page)
        uses = await session.grant_uses([grant.id for grant in grants], USES_IN_LISTS)
        return [ShownGrant(grant, uses.get(grant.id, ())) for grant in grants]

    async def read(self, session: Session, caller: Caller, grant_id: str) -> ShownGrant:
        """One of the caller's grants. Raises NotFound."""
        return await _shown(session, await _own_grant(session, caller, grant_id))

    async def prepare_revocation(self, session: Session, caller: Caller, grant_id: str) -> str:
        """The text that revokes the grant once it is signed. Raises NotFound, GrantEnded."""
        grant = self._revocable(await _own_grant(session, caller, grant_id))
        payload = build_revocation(
            grant.coverage, grant_id, nonce=self._clock.nonce(), now=self._clock.now_s()
        )
        return canonical_text(payload)

    async def revoke(
        self, tx: Transaction, caller: Caller, grant_id: str, proof: object
    ) -> ShownGrant:
        """Take a grant back by what was signed. Raises NotFound, GrantEnded, GrantInvalid."""
        await tx.lock_principal(caller.principal)
        grant = self._revocable(await _own_grant(tx, caller, grant_id))
        read = _read(RevocationPayload, proof)
        pointer = revocation_mismatch(read.payload, coverage=grant.coverage, grant_id=grant_id)
        if pointer is not None:
            raise _invalid(pointer, "is not that of the grant")
        passkey = await self._signed(tx, caller, read)
        revoked = GrantRevoked(
            resource=_resource(grant_id, grant.coverage, grant.expires_at),
            by=caller.principal,
            passkey_id=passkey.id,
        )
        await self._note(tx, revoked, read.proof.evidence)
        return await _shown(tx, await _existing(tx, grant_id))

    async def suspend(self, tx: Transaction, caller: Caller, grant_id: str) -> ShownGrant:
        """Stop anybody's grant (admin), over the service's own signature.

        Raises NotFound, GrantEnded.
        """
        caller.require("admin")
        principal = (await _existing(tx, grant_id)).coverage.principal
        await tx.lock_principal(principal)
        grant, now = await _existing(tx, grant_id), self._clock.now()
        if (state := grant.state(now)) != "active":
            raise GrantEnded(f"the grant is {state} already")
        suspended = GrantSuspended(
            resource=_resource(grant_id, grant.coverage, grant.expires_at), by=caller.principal
        )
        members = {
            "tenant": caller.tenant,
            "grant_id": grant_id,
            "coverage_hash": grant.coverage_hash,
            "by": caller.principal,
        }
        statement = self._statements.sign(StatementKind.GRANT_SUSPENSION, members)
        await self._note(tx, suspended, statement.encode())
        return await _shown(tx, await _existing(tx, grant_id))

    async def _signed(self, tx: Transaction, caller: Caller, read: Signable[_P]) -> PasskeyRecord:
        """The caller's passkey that signed this, in time and for the first time."""
        if late := lapse(read.payload, now=self._clock.now_s()):
            raise _invalid("/exp", late)
        await tx.lock_principal(caller.principal)
        passkey = await own_passkey(tx, read.proof, caller.principal, origins=self._origins)
        if isinstance(passkey, Refused):
            raise _invalid("/assertion", passkey.reason)
        if not await tx.use_nonce(read.payload.nonce, sha256_hex(read.proof.canonical)):
            raise _invalid("/nonce", "was used before")
        return passkey

    def _revocable(self, grant: GrantRecord) -> GrantRecord:
        """A suspended grant may still be revoked: suspension is not its principal's word."""
        if (state := grant.state(self._clock.now())) in {"revoked", "expired"}:
            raise GrantEnded(f"the grant is {state} already")
        return grant

    async def _note(self, tx: Transaction, payload: Payload, private: bytes) -> None:
        await tx.append_audit([NewEvent(payload, private=private)], now=self._clock.now())


async def _existing(session: Session, grant_id: str) -> GrantRecord:
    grant = await session.grant(grant_id)
    if grant is None:
        raise NotFound("grant")
    return grant


async def _own_grant(session: Session, caller: Caller, grant_id: str) -> GrantRecord:
    grant = await _existing(session, grant_id)
    if grant.coverage.principal != caller.principal:
        raise NotFound("grant")
    return grant


async def _shown(session: Session, grant: GrantRecord) -> ShownGrant:
    uses = await session.grant_uses([grant.id], USES_OF_ONE)
    return ShownGrant(grant, uses.get(grant.id, ()))


def _read(model: type[_P], proof: object) -> Signable[_P]:
    read = read_signed(model, proof)
    if isinstance(read, Refused):
        raise _invalid("", read.reason)
    return read


def _own(name: str, found: str, expected: str) -> None:
    if found != expected:
        raise _invalid(f"/{name}", "is not the caller's")


def _invalid(pointer: str, detail: str) -> GrantInvalid:
    return refusal(FieldFault(pointer, detail))


def _coverage(caller: Caller, request: GrantRequest, digest: str) -> Coverage:
    return Coverage(
        tenant=caller.tenant,
        principal=caller.principal,
        agent=request.agent,
        tool=request.tool,
        tool_definition_digest=digest,
        capabilities=tuple(sorted(set(request.capabilities))),
        constraints=tuple(_constraints(request.constraints)),
    )


def _constraints(constraints: Iterable[GrantConstraint]) -> Iterator[Constraint]:
    for at, constraint in enumerate(constraints):
        try:
            yield constraint.constraint()
        except ValueError as error:
            raise _invalid(f"/constraints/{at}", str(error)) from error


def _resource(grant_id: str, coverage: Coverage, expires_at: datetime) -> GrantResource:
    return GrantResource(
        id=grant_id,
        principal=coverage.principal,
        agent=coverage.agent,
        tool=coverage.tool,
        tool_definition_digest=coverage.tool_definition_digest,
        capabilities=coverage.capabilities,
        constraints=tuple(
            GrantConstraint(pointer=each.pointer, op=each.op, value=each.value)
            for each in coverage.constraints
        ),
        coverage_hash=coverage.sha256,
        expires_at=wire_time(expires_at),
    )


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
