"""`turngate keys rotate`: a new key for what the service signs from the next start on.

A public key is published before its private one is kept anywhere, and is never removed: what the
old key signed stays verifiable. A running process signs with the key that it started with, and
verifies with those of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import Misconfigured
from app.service.clock import SystemClock
from app.service.fresh_key import fresh_key
from app.service.statements import KEY_FILE, KEY_SETTING, Statements
from app.store.keys.private_file import replace
from app.store.keys.service_keys import StoreServiceKeys
from app.store.server.connections import open_pool
from app.store.server.whereabouts import running_database

if TYPE_CHECKING:
    from pathlib import Path

    from app.settings import Settings


async def rotate(settings: Settings, out: Path | None) -> str:
    """Publish a new key and keep it; what to do next.

    It is kept in the data directory, or in `out` where the key comes from the setting, for only the
    operator can change that. Raises Misconfigured when that does not fit, and StoreUnavailable.
    """
    if (settings.signing_key is None) is not (out is None):
        wanted = "goes without --out" if settings.signing_key is None else "needs --out"
        raise Misconfigured(f"a rotation {wanted}: {KEY_SETTING} says where the key is kept")
    clock = SystemClock()
    key = fresh_key(clock)
    async with (
        running_database(settings.database_url, data_dir=settings.data_dir) as dsn,
        await open_pool(dsn, largest=1) as pool,
    ):
        statements = Statements(key, StoreServiceKeys(pool))
        await statements.publish(clock)
    path = settings.data_dir / KEY_FILE if out is None else out
    replace(path, key.pem())
    then = "" if out is None else f"set {KEY_SETTING} to what it holds, and "
    return f"{statements.kid} is published and in {path}: {then}restart every process"
