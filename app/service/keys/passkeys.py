"""Passkeys: enrolled by a WebAuthn ceremony, endorsed like keys, revoked (service.md 5).

The challenge of a registration is a statement of the service, good for ten minutes for one
principal. So nothing is stored before there is a passkey, and any process can finish what another
began; a second registration of one credential is refused because it is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from app.log.audit import PasskeyRegistered, PasskeyRevoked
from app.log.envelope import NewEvent, wire_time
from app.log.queries import Page
from app.log.records import PasskeyRecord
from app.service.keys.endorsement import Endorsement, require_endorsement
from app.service.refusals import FieldFault, KeyTaken, NotFound, PasskeyInvalid
from app.trust import base64url
from app.trust.key_proof import Enrolment
from app.trust.passkey import ALGORITHMS, challenge_in, challenge_of, thumbprint_of
from app.trust.passkey import verify_registration as verify
from app.trust.refusal import Refused
from app.trust.statement import StatementKind

if TYPE_CHECKING:
    from app.log.payload import JsonObject, Payload
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Session, Transaction
    from app.service.statements import Statements
    from app.trust.passkey import NewPasskey

CEREMONY_S: Final = 600
_OFFERED: Final = 64


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """Whom passkeys are made for: a domain, and the origins of the pages that may ask.

    Without an id there are no passkeys.
    """

    id: str | None = None
    origins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PasskeyRequest:
    """A passkey to be enrolled: what the browser answered, and an older key's endorsement."""

    label: str
    credential: dict[str, Any]
    endorsement: Endorsement


class Passkeys:
    """The caller's own passkeys."""

    def __init__(self, clock: Clock, statements: Statements, party: RelyingParty) -> None:
        self._clock = clock
        self._statements = statements
        self._party = party

    async def registration_options(self, session: Session, caller: Caller) -> JsonObject:
        """What `navigator.credentials.create()` takes. Raises PasskeyInvalid."""
        challenge = self._statements.sign(
            StatementKind.PASSKEY_CHALLENGE,
            {
                "tenant": caller.tenant,
                "sub": caller.principal,
                "nonce": base64url.encode(self._clock.nonce()),
                "exp": self._clock.now_s() + CEREMONY_S,
            },
        )
        # Neither name nor tenant is told to the authenticator as the account's id.
        account = thumbprint_of(f"{caller.tenant}\n{caller.principal}".encode())
        return {
            "challenge": base64url.encode(challenge.encode()),
            "rp": {"id": self._rp_id(), "name": "Turngate"},
            "user": {"id": account, "name": caller.principal, "displayName": caller.principal},
            "pubKeyCredParams": [{"type": "public-key", "alg": int(alg)} for alg in ALGORITHMS],
            "excludeCredentials": await self._descriptors(session, caller),
            "authenticatorSelection": {
                "residentKey": "preferred",
                "userVerification": "required",
            },
            "attestation": "none",
            "timeout": CEREMONY_S * 1000,
        }

    async def assertion_options(
        self, session: Session, caller: Caller, canonical: str
    ) -> JsonObject:
        """What `navigator.credentials.get()` takes to sign a text. Raises PasskeyInvalid."""
        return {
            "challenge": base64url.encode(challenge_of(canonical.encode())),
            "rpId": self._rp_id(),
            "allowCredentials": await self._descriptors(session, caller),
            "userVerification": "required",
            "timeout": CEREMONY_S * 1000,
        }

    async def register(
        self, tx: Transaction, caller: Caller, request: PasskeyRequest
    ) -> PasskeyRecord:
        """Enrol a passkey. Raises PasskeyInvalid, KeyEndorsement, KeyTaken."""
        made = await self._made(caller, request)
        enrolment = Enrolment(caller.tenant, caller.principal, made.passkey.thumbprint)
        await tx.lock_principal(caller.principal)
        await require_endorsement(
            tx,
            request.endorsement,
            enrolment,
            now=self._clock.now_s(),
            origins=self._party.origins,
        )
        record = PasskeyRecord(
            id=self._clock.mint("passkey"),
            tenant=caller.tenant,
            principal=caller.principal,
            thumbprint=made.passkey.thumbprint,
            credential_id=made.passkey.credential_id,
            public_key=made.passkey.public_key,
            rp_id=made.passkey.rp_id,
            sign_count=made.sign_count,
            label=request.label,
            created_at=self._clock.now(),
            revoked_at=None,
        )
        if not await tx.put_passkey(record):
            raise KeyTaken("the passkey is registered already")
        await self._note(tx, PasskeyRegistered(resource=_resource(record), by=caller.principal))
        return record

    async def page(self, session: Session, caller: Caller, page: Page) -> list[PasskeyRecord]:
        """The caller's passkeys, newest first, revoked ones included."""
        return await session.passkeys(caller.principal, page)

    async def revoke(self, tx: Transaction, caller: Caller, passkey_id: str) -> None:
        """Revoke one of the caller's passkeys; again is no fault. Raises NotFound."""
        await tx.lock_principal(caller.principal)
        passkey = await tx.passkey(passkey_id)
        if passkey is None or passkey.principal != caller.principal:
            raise NotFound("passkey")
        if await tx.revoke_passkey(passkey_id, now=self._clock.now()):
            await self._note(tx, PasskeyRevoked(resource=_resource(passkey), by=caller.principal))

    async def _made(self, caller: Caller, request: PasskeyRequest) -> NewPasskey:
        challenge = challenge_in(request.credential)
        if isinstance(challenge, Refused):
            raise _invalid(challenge.reason)
        said = await self._statements.verified(
            StatementKind.PASSKEY_CHALLENGE, challenge.decode(errors="replace")
        )
        now = self._clock.now_s()
        ours = said is not None and (said["tenant"], said["sub"], said["exp"] >= now)
        if ours != (caller.tenant, caller.principal, True):
            raise _invalid("the challenge must be one of this caller's, of the last ten minutes")
        made = verify(
            request.credential,
            challenge=challenge,
            rp_id=self._rp_id(),
            origins=self._party.origins,
        )
        if isinstance(made, Refused):
            raise _invalid(made.reason)
        return made

    async def _descriptors(self, session: Session, caller: Caller) -> list[Any]:
        own = await session.passkeys(caller.principal, Page(_OFFERED, None))
        return [
            {"type": "public-key", "id": base64url.encode(passkey.credential_id)}
            for passkey in own
            if passkey.revoked_at is None
        ]

    async def _note(self, tx: Transaction, payload: Payload) -> None:
        await tx.append_audit([NewEvent(payload)], now=self._clock.now())

    def _rp_id(self) -> str:
        if self._party.id is None:
            raise PasskeyInvalid("this deployment has no passkeys: TURNGATE_RP_ID is not set")
        return self._party.id


def _invalid(reason: str) -> PasskeyInvalid:
    return PasskeyInvalid(reason, faults=(FieldFault("/credential", reason),))


def _resource(passkey: PasskeyRecord) -> JsonObject:
    return {
        "id": passkey.id,
        "principal": passkey.principal,
        "thumbprint": passkey.thumbprint,
        "rp_id": passkey.rp_id,
        "label": passkey.label,
        "created_at": wire_time(passkey.created_at),
    }
