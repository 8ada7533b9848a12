"""Grants in a house: enrolled with a software passkey, past the ceremony that the API guards.

holder = await Holder.of(house)
grant_id = await holder.grant(capabilities=("mutate-external",))
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from app.log.envelope import NewEvent, wire_time
from app.log.grants import GrantEnrolled, GrantResource, GrantRevoked, GrantSuspended
from app.log.records import PasskeyRecord
from app.trust.grant import Coverage, GrantConstraint, build_grant, canonical_text
from app.trust.passkey import read_proof
from app.trust.refusal import Refused
from tests.support.authenticator import RP_ID, Authenticator

if TYPE_CHECKING:
    from datetime import datetime

    from app.log.payload import Payload
    from tests.support.service.house import House

_secrets = count(8_000_000)
HOUR = 3600


@dataclass
class Holder:
    """Somebody with a passkey, who holds grants."""

    house: House
    principal: str
    authenticator: Authenticator
    passkey: PasskeyRecord

    @staticmethod
    async def of(house: House, principal: str = "alice") -> Holder:
        authenticator = Authenticator.of(next(_secrets))
        passkey = PasskeyRecord(
            id=f"pk_{authenticator.thumbprint}",
            tenant=house.tenant,
            principal=principal,
            thumbprint=authenticator.thumbprint,
            credential_id=authenticator.credential_id,
            public_key=authenticator.cose(),
            rp_id=RP_ID,
            sign_count=0,
            label="phone",
            created_at=house.clock.now(),
            revoked_at=None,
        )
        async with house.store.database.transaction(house.tenant) as tx:
            assert await tx.put_passkey(passkey)
        return Holder(house, principal, authenticator, passkey)

    def covered(self, **changed: Any) -> dict[str, Any]:
        """What a grant for `charge` covers, as the house's tools are."""
        digests = {tool.name: tool.definition_digest for tool in self.house.tools.registered()}
        name = changed.get("tool", "charge")
        members: dict[str, Any] = {
            "tenant": self.house.tenant,
            "principal": self.principal,
            "agent": "helper",
            "tool": name,
            "tool_definition_digest": digests.get(name),
            "capabilities": ("mutate-external",),
            "constraints": (),
        }
        return members | changed

    async def grant(
        self, *, lasts_s: int = HOUR, signed_by: Authenticator | None = None, **changed: Any
    ) -> str:
        """Enrol a grant; its id."""
        now = int(self.house.clock.now().timestamp())
        covered = self.covered(**changed)
        payload = build_grant(
            Coverage(**covered), expires_at=now + lasts_s, nonce=bytes(16), now=now
        )
        proof = (signed_by or self.authenticator).sign(canonical_text(payload))
        read = read_proof(proof)
        assert not isinstance(read, Refused)
        resource = _resource(f"grant_{next(_secrets)}", covered, self._at(lasts_s))
        enrolled = GrantEnrolled(resource=resource, by=self.principal, passkey_id=self.passkey.id)
        await self._audit(enrolled, read.evidence)
        return resource.id

    async def revoke(self, grant_id: str) -> None:
        """Take a grant back."""
        resource = _resource(grant_id, self.covered(), self._at(HOUR))
        revoked = GrantRevoked(resource=resource, by=self.principal, passkey_id=self.passkey.id)
        await self._audit(revoked, b"{}")

    async def suspend(self, grant_id: str) -> None:
        """Stop a grant, as an administrator does."""
        resource = _resource(grant_id, self.covered(), self._at(HOUR))
        await self._audit(GrantSuspended(resource=resource, by="boss"), b"{}")

    async def lose_passkey(self) -> None:
        """Revoke the passkey that signs."""
        async with self.house.store.database.transaction(self.house.tenant) as tx:
            await tx.revoke_passkey(self.passkey.id, now=self.house.clock.now())

    def _at(self, seconds: int) -> datetime:
        return self.house.clock.now() + timedelta(seconds=seconds)

    async def _audit(self, payload: Payload, private: bytes) -> None:
        async with self.house.store.database.transaction(self.house.tenant) as tx:
            event = NewEvent(payload, private=private)
            await tx.append_audit([event], now=self.house.clock.now())


def hash_of(covered: dict[str, Any]) -> str:
    """The coverage hash, by hand: SHA-256 of the members in order of their names, unspaced."""
    constraints = [asdict(one) for one in covered["constraints"]]
    text = json.dumps(covered | {"constraints": constraints}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _resource(grant_id: str, covered: dict[str, Any], expires_at: datetime) -> GrantResource:
    """The grant as an event has it: what it covers, but not its tenant, whose log it is in."""
    told = {name: member for name, member in covered.items() if name != "tenant"}
    told["constraints"] = tuple(GrantConstraint(**asdict(one)) for one in covered["constraints"])
    return GrantResource(
        id=grant_id, coverage_hash=hash_of(covered), expires_at=wire_time(expires_at), **told
    )
