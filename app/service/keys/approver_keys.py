"""Approver keys: enrolled with a proof, endorsed by an older one, revoked, reset (service.md 5).

A token alone enrols only the first key of a principal. Whatever came after a first key or a reset
needs the word of an active key, so that a stolen token cannot bring a key of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.log.audit import KeyRegistered, KeyRevoked, KeysReset
from app.log.envelope import NewEvent, wire_time
from app.log.records import KeyRecord
from app.service.keys.endorsement import NO_ENDORSEMENT, Endorsement, require_endorsement
from app.service.refusals import FieldFault, KeyInvalid, KeyTaken, NotFound
from app.trust.key_proof import Enrolment, verify_key_proof
from app.trust.keys import read_public_jwk
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.log.payload import JsonObject, Payload
    from app.log.queries import Page
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Session, Transaction
    from app.trust.keys import P256Key


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """A key to be enrolled, with the statements that go with it."""

    public_jwk: Mapping[str, object]
    label: str
    proof_jws: str
    endorsement: Endorsement = NO_ENDORSEMENT


class Keys:
    """The caller's own keys; an administrator may only reset another's."""

    def __init__(self, clock: Clock, *, origins: frozenset[str] = frozenset()) -> None:
        """`origins` are those whose pages may ask for a passkey's endorsement."""
        self._clock = clock
        self._origins = origins

    async def register(self, tx: Transaction, caller: Caller, request: KeyRequest) -> KeyRecord:
        """Enrol a key. Raises KeyInvalid, KeyEndorsement, KeyTaken."""
        key, enrolment = self._proven(caller, request)
        await tx.lock_principal(caller.principal)
        await require_endorsement(
            tx,
            request.endorsement,
            enrolment,
            now=self._clock.now_s(),
            origins=self._origins,
        )
        record = KeyRecord(
            id=self._clock.mint("key"),
            tenant=caller.tenant,
            principal=caller.principal,
            thumbprint=enrolment.thumbprint,
            public_jwk=key.jwk(),
            label=request.label,
            created_at=self._clock.now(),
            revoked_at=None,
        )
        if not await tx.put_key(record):
            raise KeyTaken("the key is registered already")
        await self._note(tx, KeyRegistered(resource=_resource(record), by=caller.principal))
        return record

    async def page(self, session: Session, caller: Caller, page: Page) -> list[KeyRecord]:
        """The caller's keys, newest first, revoked ones included."""
        return await session.keys(caller.principal, page)

    async def revoke(self, tx: Transaction, caller: Caller, key_id: str) -> None:
        """Revoke one of the caller's keys; again is no fault. Raises NotFound."""
        await tx.lock_principal(caller.principal)
        key = await tx.key(key_id)
        if key is None or key.principal != caller.principal:
            raise NotFound("key")
        if await tx.revoke_key(key_id, now=self._clock.now()):
            await self._note(tx, KeyRevoked(resource=_resource(key), by=caller.principal))

    async def reset(self, tx: Transaction, caller: Caller, principal: str) -> None:
        """Revoke all keys and passkeys of a principal; the next enrolment is the first (admin)."""
        caller.require("admin")
        await tx.lock_principal(principal)
        await tx.reset_keys(principal, now=self._clock.now())
        await self._note(tx, KeysReset(resource={"principal": principal}, by=caller.principal))

    def _proven(self, caller: Caller, request: KeyRequest) -> tuple[P256Key, Enrolment]:
        key = read_public_jwk(request.public_jwk)
        if isinstance(key, Refused):
            raise _invalid("/public_jwk", key)
        enrolment = Enrolment(caller.tenant, caller.principal, key.thumbprint())
        proof = verify_key_proof(
            request.proof_jws, key=key, enrolment=enrolment, now=self._clock.now_s()
        )
        if isinstance(proof, Refused):
            raise _invalid("/proof_jws", proof)
        return key, enrolment

    async def _note(self, tx: Transaction, payload: Payload) -> None:
        await tx.append_audit([NewEvent(payload)], now=self._clock.now())


def _invalid(pointer: str, refused: Refused) -> KeyInvalid:
    return KeyInvalid(refused.reason, faults=(FieldFault(pointer, refused.reason),))


def _resource(key: KeyRecord) -> JsonObject:
    return {
        "id": key.id,
        "principal": key.principal,
        "thumbprint": key.thumbprint,
        "label": key.label,
        "created_at": wire_time(key.created_at),
    }
