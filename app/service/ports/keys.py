"""What the service needs for approver keys, passkeys, tokens and its own keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from app.log.queries import Page
    from app.log.records import KeyRecord, PasskeyRecord
    from app.log.revocations import Revocation


class PasskeyReads(Protocol):
    """Reads of a tenant's passkeys, revoked ones included."""

    async def passkey(self, passkey_id: str) -> PasskeyRecord | None: ...
    async def passkey_of(self, thumbprint: str) -> PasskeyRecord | None: ...
    async def passkeys(self, principal: str, page: Page) -> list[PasskeyRecord]: ...


class PasskeyWrites(Protocol):
    """Writes of a tenant's passkeys."""

    async def put_passkey(self, passkey: PasskeyRecord) -> bool:
        """Add a passkey; False when its credential is registered already."""
        ...

    async def revoke_passkey(self, passkey_id: str, *, now: datetime) -> bool:
        """Whether the passkey was there and active."""
        ...

    async def count_passkey(self, passkey_id: str, sign_count: int) -> bool:
        """Note a passkey's use; False when its counter does not advance so."""
        ...


class KeyReads(Protocol):
    """Reads of a tenant's approver keys."""

    async def key(self, key_id: str) -> KeyRecord | None: ...
    async def keys(self, principal: str, page: Page) -> list[KeyRecord]: ...


class KeyWrites(Protocol):
    """Writes of a tenant's approver keys, and of what access tokens still hold."""

    async def lock_principal(self, principal: str) -> None:
        """Serialise changes to one principal's keys until the end of the block."""
        ...

    async def had_key(self, principal: str) -> bool:
        """Whether the principal has had a key or passkey since the last reset."""
        ...

    async def put_key(self, key: KeyRecord) -> bool:
        """Add a key; False when its thumbprint belongs to another principal or exists already."""
        ...

    async def revoke_key(self, key_id: str, *, now: datetime) -> bool: ...
    async def revoke_tokens(self, revocation: Revocation) -> None:
        """Refuse such tokens from now on."""
        ...

    async def reset_keys(self, principal: str, *, now: datetime) -> None: ...


class ServiceKeys(Protocol):
    """The public keys that the service has signed with, of all its processes."""

    async def add(self, kid: str, public_jwk: Mapping[str, str], *, now: datetime) -> None:
        """Publish a key for good; one that is there stays as it is. Raises StoreUnavailable."""
        ...

    async def all(self) -> dict[str, dict[str, str]]:
        """Every public JWK by its `kid`, oldest first. Raises StoreUnavailable."""
        ...
