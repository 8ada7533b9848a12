"""The root of every error of Turngate that carries a stable code.

An expected refusal has a class of its own, and each class one code of service.md 11. HTTP statuses
and close codes are none of its business: `app.api` maps codes to them.
"""

from __future__ import annotations

from typing import ClassVar


class TurngateError(Exception):
    """A refusal with a stable, dotted `code`; the message says what was expected and found."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Misconfigured(TurngateError):
    """A setting, or a file of the data directory, does not hold; the message never shows it."""


class LeaseLost(TurngateError):
    """Another worker drives the conversation now; whoever catches this stops without a word."""


class StoreUnavailable(TurngateError):
    """The database, or the bucket of artifacts, cannot be reached just now."""

    code = "unavailable"


class IdempotencyMismatch(TurngateError):
    """The key was used before, for another request."""

    code = "idempotency.mismatch"


class IdempotencyInProgress(TurngateError):
    """Another request with the key has been running for as long as we wait."""

    code = "idempotency.in_progress"


class IdentityRequired(TurngateError):
    """A scope lacks a part of its identity, and nothing is looked up without all of them."""


class ArtifactGone(TurngateError):
    """An artifact was deleted while its bytes were read."""

    code = "not_found"


class ArtifactCorrupt(TurngateError):
    """The bytes of an artifact are not those that were kept."""
