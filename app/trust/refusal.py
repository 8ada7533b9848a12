"""The refusals of this room: values with a reason; which code that becomes is decided above.

A reason is a whole clause about what was expected. It quotes no content and no secret, yet it is
for logs: a client learns only that its token or signature is invalid.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refused:
    """Bytes that do not hold, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnknownKey(Refused):
    """A well-formed token under an unregistered key id; perhaps our key set is out of date."""

    kid: str
