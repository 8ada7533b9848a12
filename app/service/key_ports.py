"""What the service needs for passkeys: reads and writes, as parts of the ports of `ports`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from app.log.queries import Page
    from app.log.records import PasskeyRecord


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
