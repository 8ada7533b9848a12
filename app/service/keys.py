"""Approver keys: enrolled with a proof, endorsed by an older one, revoked, reset (service.md 5).

A token alone enrols only the first key of a principal. Whatever came after a first key or a reset
needs the word of an active key, so that a stolen token cannot bring a key of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.log.audit import KeyRegistered, KeyRevoked, KeysReset
from app.log.envelope import NewEvent, wire_time
from app.log.queries import Page
from app.log.records import KeyRecord
from app.service.refusals import FieldFault, KeyEndorsement, KeyInvalid, KeyTaken, NotFound
from app.trust.key_proof import Enrolment, verify_endorsement, verify_key_proof
from app.trust.keys import P256Key, read_public_jwk
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from app.log.payload import JsonObject, Payload
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports import Session, Transaction

_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """A key to be enrolled, with the statements that go with it."""

    public_jwk: Mapping[str, object]
    label: str
    proof_jws: str
    endorsement_jws: str | None = None


class Keys:
    """The caller's own keys; an administrator may only reset another's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def register(self, tx: Transaction, caller: Caller, request: KeyRequest) -> KeyRecord:
        """Enrol a key. Raises KeyInvalid, KeyEndorsement, KeyTaken."""
        key, enrolment = self._proven(caller, request)
        await tx.lock_principal(caller.principal)
        if await tx.had_key(caller.principal):
            await self._require_endorsement(tx, request, enrolment)
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
        """Revoke all of a principal's keys and open the first enrolment again (admin)."""
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
            request.proof_jws, key=key, enrolment=enrolment, now=self._seconds()
        )
        if isinstance(proof, Refused):
            raise _invalid("/proof_jws", proof)
        return key, enrolment

    async def _require_endorsement(
        self, tx: Transaction, request: KeyRequest, enrolment: Enrolment
    ) -> None:
        if request.endorsement_jws is None:
            raise KeyEndorsement("a further key needs the endorsement of an active one")
        active = {key.id: public async for key, public in _active(tx, enrolment.sub)}
        word = verify_endorsement(
            request.endorsement_jws, active=active, enrolment=enrolment, now=self._seconds()
        )
        if isinstance(word, Refused):
            raise KeyEndorsement(word.reason, faults=(FieldFault("/endorsement_jws", word.reason),))

    async def _note(self, tx: Transaction, payload: Payload) -> None:
        await tx.append_audit([NewEvent(payload)], now=self._clock.now())

    def _seconds(self) -> int:
        return int(self._clock.now().timestamp())


async def _active(session: Session, principal: str) -> AsyncIterator[tuple[KeyRecord, P256Key]]:
    before: str | None = None
    while True:
        keys = await session.keys(principal, Page(_PAGE, before))
        for key in keys:
            public = read_public_jwk(key.public_jwk)
            if key.revoked_at is None and isinstance(public, P256Key):
                yield key, public
        if len(keys) < _PAGE:
            return
        before = keys[-1].id


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
