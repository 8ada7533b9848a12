"""Where a model is: what its name says, and the endpoint that serves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

SCRIPT: Final = "script"
VENDORS: Final = frozenset({"openai", "anthropic", "google"})
_COMPATIBLE: Final = "compatible"
# What the models that a vendor offers today can read at least, in tokens.
WINDOWS: Final = {"openai": 128_000, "anthropic": 200_000, "google": 1_000_000}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server of models; `base_url` is None for the vendor's own address.

    `context_window` is what its models can read, in tokens, where that was said.
    """

    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    context_window: int | None = None


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait: for the first piece of a reply, and for any next byte.

    A connection has 5 s; that bound is pydantic-ai's.
    """

    first_event_s: float = 180.0
    stall_s: float = 180.0


@dataclass(frozen=True, slots=True)
class ModelName:
    """`vendor:model`, or `compatible:SERVER` with an optional `/model` (else the server's name)."""

    vendor: str
    model: str
    server: str | None = None

    @property
    def owner(self) -> str:
        """Who made what only its maker can read, in a form without colons."""
        return self.vendor if self.server is None else f"compatible-{self.server}".replace(":", "_")


def parse_model(text: str, servers: frozenset[str]) -> ModelName | None:
    """The parts of a name; None if there is no such vendor, no model, or no such server."""
    vendor, _, rest = text.partition(":")
    if not rest:
        return None
    if vendor in VENDORS:
        return ModelName(vendor, rest)
    if vendor != _COMPATIBLE:
        return None
    if rest in servers:
        return ModelName(vendor, rest, server=rest)
    server, _, model = rest.partition("/")
    return ModelName(vendor, model, server=server) if server in servers and model else None
