"""Attachments that a provider is to get by way of its own storage (run-context.md 4.6).

A request names them in its messages by a source; the adapter of a provider uploads them inside the
model call, or shows the model their stubs where its provider has no storage for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from app.ids import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFile:
    """One such file; nobody but its session has the upload of it in common.

    `stub` is what stands for it, and empty where its stub is in the message anyhow. `read` gives
    the bytes when they are wanted, None for such as cannot be had any more.
    """

    id: str
    identity: Identity
    media_type: str
    filename: str
    sha256: str
    stub: str
    read: Callable[[], Awaitable[bytes | None]]

    @property
    def source(self) -> str:
        """What a message calls it."""
        return f"artifact:{self.id}"
