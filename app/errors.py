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
