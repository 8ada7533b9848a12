"""The word of an active key or passkey for a further one, so that a stolen token enrols none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.log.queries import Page
from app.service.keys.assertions import own_passkey
from app.service.refusals import FieldFault, KeyEndorsement
from app.trust.key_proof import verify_endorsement, verify_endorsement_text
from app.trust.keys import P256Key, read_public_jwk
from app.trust.passkey import read_proof
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from app.log.records import KeyRecord
    from app.service.ports.database import Session, Transaction
    from app.trust.key_proof import Enrolment

_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class Endorsement:
    """What came with an enrolment: a statement that a key signed, or a passkey's proof over it."""

    jws: str | None = None
    passkey: object = None


NO_ENDORSEMENT: Final = Endorsement()


async def require_endorsement(
    tx: Transaction,
    endorsement: Endorsement,
    enrolment: Enrolment,
    *,
    now: int,
    origins: Collection[str],
) -> None:
    """Refuse a further key or passkey that no active one endorses. Raises KeyEndorsement.

    The principal is locked. The first of all, and the first after a reset, need no word.
    """
    if not await tx.had_key(enrolment.sub):
        return
    match endorsement:
        case Endorsement(jws=str(jws), passkey=None):
            active = {key.id: public async for key, public in _active(tx, enrolment.sub)}
            word = verify_endorsement(jws, active=active, enrolment=enrolment, now=now)
            _hold("/endorsement_jws", word)
        case Endorsement(jws=None, passkey=dict(proof)):
            await _by_passkey(tx, proof, enrolment, now=now, origins=origins)
        case _:
            raise KeyEndorsement(
                "a further key needs the endorsement of exactly one active one,"
                " as endorsement_jws or endorsement_passkey"
            )


async def _by_passkey(
    tx: Transaction,
    posted: dict[str, object],
    enrolment: Enrolment,
    *,
    now: int,
    origins: Collection[str],
) -> None:
    pointer, proof = "/endorsement_passkey", read_proof(posted)
    if isinstance(proof, Refused):
        raise _refusal(pointer, proof)
    _hold(pointer, verify_endorsement_text(proof.canonical, enrolment=enrolment, now=now))
    _hold(pointer, await own_passkey(tx, proof, enrolment.sub, origins=origins))


def _hold(pointer: str, found: object) -> None:
    if isinstance(found, Refused):
        raise _refusal(pointer, found)


def _refusal(pointer: str, refused: Refused) -> KeyEndorsement:
    return KeyEndorsement(refused.reason, faults=(FieldFault(pointer, refused.reason),))


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
