"""The agent as a turn sees it: a model, instructions, and the rules its calls fall under."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.policy.capability import ALL_CAPABILITIES
from app.policy.grants import GrantPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.engine.messages import UserContent
    from app.policy.capability import CapabilitySet
    from app.turn.folded import Compactor
    from app.turn.native_files import NativeFile


@dataclass(frozen=True, slots=True)
class Attachments:
    """What stands after a run's input: in its first step, retries included, and in later ones.

    `files` are those that the opening names by their source.
    """

    opening: tuple[UserContent, ...]
    later: tuple[UserContent, ...]
    files: tuple[NativeFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundAgent:
    """The stricter of a run's snapshot and the present agent (service.md 3).

    `asks_questions`: its tools name `ask_question`. `context` are the blocks of the run's context,
    fixed when it began (run-context.md 8). With a `compactor` the history that is sent gets
    condensed; `context_window` is what the model can read, in tokens, where that is known.
    """

    name: str
    model: str
    instructions: str = ""
    grant_policy: GrantPolicy = field(default_factory=GrantPolicy)
    execution_ceiling: CapabilitySet = ALL_CAPABILITIES
    asks_questions: bool = False
    output_schema: Mapping[str, object] | None = None
    context: tuple[str, ...] = ()
    attachments: Attachments | None = None
    compactor: Compactor | None = None
    context_window: int | None = None
