"""Who gets in: whose tokens are taken, and which of them no more."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from app.providers.key_sets import read_key_set
from app.service.access.development import DEVELOPMENT_ISSUER, development_issuer
from app.service.access.revocations import RevokedTokens
from app.service.access.tokens import Access, FetchedKeys, FixedKeys
from app.settings import Environment, Settings
from app.store.keys.private_file import kept

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.service.access.tokens import KeyRing
    from app.service.clock import Clock
    from app.store.open import Store


@asynccontextmanager
async def open_access(store: Store, settings: Settings, clock: Clock) -> AsyncIterator[Access]:
    """Who gets in; what was revoked is known from the first request on."""
    revoked = RevokedTokens(store.revocations, clock)
    issuers, audience = _issuers(settings, clock), settings.jwt_audience
    async with revoked.running():
        yield Access(clock, issuers=issuers, audience=audience, revoked=revoked)


def _issuers(settings: Settings, clock: Clock) -> dict[str, KeyRing]:
    """The issuers whose tokens are taken; that of development never in production."""
    issuers: dict[str, KeyRing] = {}
    if settings.jwt_issuer is not None and settings.jwt_jwks is not None:
        issuers[settings.jwt_issuer] = FetchedKeys(partial(read_key_set, settings.jwt_jwks), clock)
    if settings.env is not Environment.PRODUCTION:
        local = development_issuer(settings.data_dir, clock, kept=kept)
        issuers[DEVELOPMENT_ISSUER] = FixedKeys(local.keys())
    return issuers
