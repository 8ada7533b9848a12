"""How far a server may be, and how long it may be gone: addresses, and the grace period."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.tools.address import AddressRefused, checked, target

if TYPE_CHECKING:
    from app.tools.address import AllowList, Target
    from app.tools.http import Resolve
    from app.turn.ports import Clock

# A server that is gone has so long to come back before a call under way is settled.
GRACE_S: Final = 30.0
RETRY_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """What the way to an HTTP server goes by."""

    allowed: AllowList
    resolve: Resolve
    clock: Clock

    async def refusal(self, url: str) -> str | None:
        """Why nobody may be led to the URL. A name that nobody knows yet may be known later."""
        try:
            to = target(url, self.allowed)
            if not to.is_exempt and (resolved := await self.resolve(to.host, to.port)):
                checked(to.host, resolved)
        except AddressRefused as error:
            return str(error)
        return None

    async def addresses(self, to: Target) -> list[str]:
        """The addresses of a host that may be connected to. Raises AddressRefused."""
        resolved = await self.resolve(to.host, to.port)
        if to.is_exempt:
            return list(resolved)
        return [str(address) for address in checked(to.host, resolved)]
