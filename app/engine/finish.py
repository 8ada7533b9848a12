"""How a run's loop came to its end, as whoever makes an answer of it is told (run-context.md 3.2).

Not to be taken for `usage.FinishReason`, which is a provider's word on one model call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class FinishReason(StrEnum):
    """Why the loop ended."""

    GOAL = "goal"
    NO_PATH = "no_path"
    CANCELLED = "cancelled"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    CONSTRAINTS_CONFLICT = "constraints_conflict"


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a loop; `payload` is whatever it came to, a text in most cases."""

    reason: FinishReason
    payload: object = None
    metadata: Mapping[str, object] = field(default_factory=dict)
