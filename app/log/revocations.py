"""Revocations of access tokens: one by its id, or all of a subject from before a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """Tokens that are refused: the one whose `jti` is `value`, or those of the `sub` `value`.

    `before` is when the first token of a subject may be issued that holds again; None with `jti`.
    """

    tenant: str
    kind: Literal["jti", "sub"]
    value: str
    before: datetime | None
