"""What the service needs of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from app.turn.ports import Provider


class Providers(Protocol):
    """The models of this deployment."""

    def provider(self, model: str) -> Provider: ...
    def context_window(self, model: str) -> int | None:
        """What the model can read, in tokens, where that is known."""
        ...
