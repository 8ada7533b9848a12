"""Tokens of the development issuer, whose key lies in the data directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.service.access.development import development_issuer
from app.service.clock import SystemClock
from app.settings import Environment
from app.store.keys.private_file import kept

if TYPE_CHECKING:
    from app.service.access.development import TokenOrder
    from app.settings import Settings


class NoDevelopmentIssuer(Exception):
    """Tokens come from the configured issuer in production."""


def issue(settings: Settings, order: TokenOrder) -> str:
    """An access token for `order`.

    Raises NoDevelopmentIssuer, UnknownScope, IssuerUnreadable and StoreUnavailable.
    """
    if settings.env is Environment.PRODUCTION:
        raise NoDevelopmentIssuer("production takes tokens of TURNGATE_JWT_ISSUER alone")
    clock = SystemClock()
    issuer = development_issuer(settings.data_dir, clock, kept=kept)
    return issuer.token(order, audience=settings.jwt_audience, clock=clock)
