"""A new private key, for whoever signs: the service, or the issuer of one's own machine.

It stands alone so that a token is printed without what the service signs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.trust.keys import CHANCE_BYTES, derive_signing_key

if TYPE_CHECKING:
    from app.service.clock import Clock
    from app.trust.keys import SigningKey


def fresh_key(clock: Clock) -> SigningKey:
    """A new key, with chance from the clock."""
    chance = b"".join(clock.nonce() for _ in range(3))
    return derive_signing_key(chance[:CHANCE_BYTES])
