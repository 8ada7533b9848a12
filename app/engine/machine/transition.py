"""The shape of a step of the machine: the next record, and what the caller gets.

An error in `Raised` is raised once its record is in place: the run ended, or has used up its
budget, and that is part of its state. A violation is raised right away, so nothing of it stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from app.engine.machine.record import RunRecord

if TYPE_CHECKING:
    from app.engine.errors import PromptError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Raised:
    """The next record, and the error to raise from it."""

    record: RunRecord
    error: PromptError


Transition = tuple[RunRecord, T] | Raised
