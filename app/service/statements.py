"""What the service signs with its own key, and whether it did: seals, mutations, answers.

The private key is in the settings or in a private file of the data directory, and nothing but
`Statements` holds it. Public keys are in the database before anything is signed with them and are
never removed, so every process publishes, and verifies with, those of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.errors import Misconfigured
from app.log.envelope import NewEvent
from app.log.runs import LogSealed
from app.service.fresh_key import fresh_key
from app.trust.keys import P256Key, read_public_jwk
from app.trust.keys import read_signing_key as read_pem
from app.trust.refusal import Refused, UnknownKey
from app.trust.seal import sign_seal
from app.trust.statement import sign_statement, verify_statement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from app.service.clock import Clock
    from app.service.ports.keys import ServiceKeys
    from app.trust.keys import SigningKey
    from app.trust.seal import Seal
    from app.trust.statement import StatementKind

KEY_FILE: Final = "service-key.pem"
KEY_SETTING: Final = "TURNGATE_SIGNING_KEY"


def service_key(
    pem: str | None,
    data_dir: Path,
    clock: Clock,
    *,
    kept: Callable[[Path, Callable[[], bytes]], bytes],
) -> SigningKey:
    """The key of the setting, else that of the data directory, made at the first use.

    `kept` gives the content of a file, or puts there what it is to hold. Raises Misconfigured.
    """
    if pem is not None:
        return _read(pem.encode(), KEY_SETTING)
    path = data_dir / KEY_FILE
    return _read(kept(path, lambda: fresh_key(clock).pem()), str(path))


def _read(pem: bytes, name: str) -> SigningKey:
    key = read_pem(pem)
    if isinstance(key, Refused):
        raise Misconfigured(f"{name}: {key.reason}")
    return key


def sealer(key: SigningKey) -> Callable[[Seal], NewEvent]:
    """What seals logs with that key. The key must be published before anything is appended."""
    kid = key.public.thumbprint()

    def sealed(seal: Seal) -> NewEvent:
        signature = sign_seal(seal, key=key, kid=kid)
        return NewEvent(
            LogSealed(
                from_seq=seal.from_seq,
                through_seq=seal.through_seq,
                count=seal.count,
                root=seal.root,
                kid=kid,
                signature=signature,
            )
        )

    return sealed


class Statements:
    """Signs for this process; verifies what any process of the deployment has ever signed."""

    def __init__(self, key: SigningKey, keys: ServiceKeys) -> None:
        self._key = key
        self._keys = keys
        self.kid: Final = key.public.thumbprint()
        self._known = {self.kid: key.public}

    async def publish(self, clock: Clock) -> None:
        """Make the key known to all processes; nothing is signed before. Raises StoreUnavailable.

        Again is no fault.
        """
        await self._keys.add(self.kid, self._key.public.jwk(), now=clock.now())

    async def published(self) -> dict[str, P256Key]:
        """Every public key there has been, by `kid`, oldest first. Raises StoreUnavailable."""
        found = {kid: read_public_jwk(jwk) for kid, jwk in (await self._keys.all()).items()}
        return {kid: key for kid, key in found.items() if isinstance(key, P256Key)}

    def sign(self, kind: StatementKind, members: Mapping[str, Any]) -> str:
        """A compact JWS over `members`, as a statement of that kind alone."""
        return sign_statement(kind, members, key=self._key, kid=self.kid)

    async def verified(self, kind: StatementKind, statement: str) -> dict[str, Any] | None:
        """The members of a statement of that kind, if the service signed it.

        Raises StoreUnavailable, when another process's key has to be looked up.
        """
        members = verify_statement(kind, statement, keys=self._known)
        if isinstance(members, UnknownKey):
            self._known |= await self.published()
            members = verify_statement(kind, statement, keys=self._known)
        return None if isinstance(members, Refused) else members
