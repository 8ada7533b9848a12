"""Identifiers: a prefix and a UUIDv7 (RFC 9562), built from a given time and given chance.

An `Identity` says whose memory, skills and artifacts are meant (run-context.md 2).

Nothing here reads a clock or a random source; `app.service.clock` mints.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from app.errors import IdentityRequired

RANDOM_BYTES: Final = 10


def make_id(prefix: str, *, unix_ms: int, chance: bytes) -> str:
    """`prefix` + "_" + the UUIDv7 of `unix_ms` (milliseconds) and ten bytes of `chance`."""
    if len(chance) != RANDOM_BYTES:
        raise ValueError(f"chance must be {RANDOM_BYTES} bytes, found {len(chance)}")
    raw = bytearray(unix_ms.to_bytes(6, "big") + chance)
    raw[6] = (raw[6] & 0x0F) | 0x70
    raw[8] = (raw[8] & 0x3F) | 0x80
    return f"{prefix}_{UUID(bytes=bytes(raw))}"


@dataclass(frozen=True, slots=True)
class Identity:
    """Tenant, user and session (the conversation) isolate; the run is provenance."""

    tenant: str
    user: str
    session: str
    run: str = ""

    def session_scope(self) -> Identity:
        """The same triple without a run."""
        return replace(self, run="")

    def require(self, *, run: bool = False) -> None:
        """Raise IdentityRequired naming the members that are empty or blank."""
        needed = ("tenant", "user", "session", *(("run",) if run else ()))
        missing = [name for name in needed if not getattr(self, name).strip()]
        if missing:
            raise IdentityRequired(f"the identity lacks {', '.join(missing)}")
