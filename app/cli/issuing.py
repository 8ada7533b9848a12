"""Tokens of the development issuer, whose key lies in the data directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.service.clock import SystemClock
from app.service.development import DevelopmentIssuer
from app.settings import Environment
from app.store.private_file import kept
from app.trust.keys import CHANCE_BYTES

if TYPE_CHECKING:
    from app.service.development import TokenOrder
    from app.settings import Settings

ISSUER_FILE: Final = "dev-issuer.json"


class NoDevelopmentIssuer(Exception):
    """Tokens come from the configured issuer in production."""


def issue(settings: Settings, order: TokenOrder) -> str:
    """An access token for `order`.

    Raises NoDevelopmentIssuer, UnknownScope, IssuerUnreadable and StoreUnavailable.
    """
    if settings.env is Environment.PRODUCTION:
        raise NoDevelopmentIssuer("production takes tokens of TURNGATE_JWT_ISSUER alone")
    clock = SystemClock()

    def make() -> bytes:
        chance = b"".join(clock.nonce() for _ in range(3))[:CHANCE_BYTES]
        return DevelopmentIssuer.from_chance(chance).document()

    issuer = DevelopmentIssuer.from_document(kept(settings.data_dir / ISSUER_FILE, make))
    return issuer.token(order, audience=settings.jwt_audience, clock=clock)
