"""What every event payload has in common: a stable type tag, frozen fields, no unknown ones.

Rules of the room (service.md 6): a type's meaning never changes; a field is only added, with a
default; any other change is a new type, or an upcaster with a golden log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, JsonValue
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonObject = dict[str, JsonValue]


class Payload(BaseModel):
    """The `data` of one event; each subclass names its wire tag in `TYPE`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    TYPE: ClassVar[str]

    def wire(self) -> dict[str, Any]:
        """The JSON-ready `data` member."""
        return self.model_dump(mode="json")


class Shape(BaseModel):
    """A value inside a payload."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkerRef(Shape):
    """The delegation that an event, or an approval, comes from (turn.md 7.1)."""

    call_id: str
    agent: str


class WorkerPayload(Payload):
    """A payload that a delegated worker may produce too; `worker` is absent otherwise, not null."""

    worker: WorkerRef | None = None

    @override
    def wire(self) -> dict[str, Any]:
        """The JSON-ready `data` member, without `worker` outside of a delegation."""
        return self.model_dump(mode="json", exclude={"worker"} if self.worker is None else None)


def delegation_of(data: Mapping[str, Any]) -> str | None:
    """The call id of the delegation whose worker stated this `data`, if one did.

    Of `run.started` and `run.resumed` the member is text: the worker process.
    """
    worker = data.get("worker")
    return worker["call_id"] if isinstance(worker, dict) else None


class CoveredBy(Shape):
    """What let a call run: a decision, a session approval or a remembered grant."""

    kind: Literal["decision", "session", "grant"]
    id: str


class UsageTotals(Shape):
    """Seven token counts (agent-run.md 2.3); all zero means that nothing was reported."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    tool_use_prompt_tokens: int = 0
    reasoning_tokens: int = 0
