"""What a turn worked with and what it returned, for the tests of what the service makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from app.engine.agent_run import AgentRun
from app.engine.usage import Usage
from app.service.agents.binding import Bound
from app.service.agents.spec import AgentSpec
from app.turn.agent import BoundAgent
from app.turn.result import EndedBy, PendingApproval, TurnResult
from tests.support.turn.tools import MemoryTool, MemoryTools

if TYPE_CHECKING:
    from app.turn.ports import Provider

ORDER = '{"body":"{}","url":"http://shop.example:8080/orders"}'


def bound(*tools: MemoryTool, **spec: Any) -> Bound:
    """An agent bound to these tools."""
    document = AgentSpec.model_validate({"model": "script"} | spec)
    agent = BoundAgent(name="courier", model="script")
    return Bound(document, agent, MemoryTools(*tools), cast("Provider", None))


def pending(call_id: str = "call_1_1_0", **changes: Any) -> PendingApproval:
    """A call of `http_post` that needs a person."""
    plain: dict[str, Any] = {
        "request_id": "call_0_0",
        "call_id": call_id,
        "tool_name": "http_post",
        "title": "Post to a web address",
        "args_json": ORDER,
        "reason": "",
        "required": frozenset(),
        "missing": frozenset(),
        "definition_digest": "d" * 64,
    }
    return PendingApproval(**(plain | changes))


def result(ended_by: EndedBy = EndedBy.ANSWER, **changes: Any) -> TurnResult:
    """What a turn returned; it said `sent` in one step."""
    plain: dict[str, Any] = {
        "messages": (),
        "usage": Usage(),
        "stop": "stop",
        "ended_by": ended_by,
        "text": "sent",
        "steps": 1,
        "executed_calls": 0,
        "tainted": False,
    }
    return TurnResult(**(plain | changes))


def machine() -> AgentRun:
    """A run that has said nothing."""
    return AgentRun.new("go")
