"""What principals sign with passkeys of their own, apart from decisions, which have own codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.trust.passkey import Passkey, verify_proof
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Collection

    from app.log.records import PasskeyRecord
    from app.service.ports.database import Transaction
    from app.trust.passkey import PasskeyProof


def passkey_of(record: PasskeyRecord) -> Passkey:
    """What verifies the assertions of a registered passkey."""
    return Passkey(record.credential_id, record.public_key, record.rp_id)


async def own_passkey(
    tx: Transaction, proof: PasskeyProof, principal: str, *, origins: Collection[str]
) -> PasskeyRecord | Refused:
    """The active passkey of the principal that made the proof, its counter moved on.

    The principal is locked, so that no passkey is revoked meanwhile.
    """
    record = await tx.passkey_of(proof.thumbprint)
    if record is None or record.revoked_at is not None or record.principal != principal:
        return Refused("the assertion must be of an active passkey")
    if refused := verify_proof(proof, passkey=passkey_of(record), origins=origins):
        return refused
    if not await tx.count_passkey(record.id, proof.sign_count):
        return Refused("the passkey's counter does not advance: it may be a copy")
    return record
