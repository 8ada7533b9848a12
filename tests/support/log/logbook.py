"""A conversation's log written by hand, and read as a session of the store would read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import rfc8785

from app.engine.messages import AssistantText, Function, ProviderIds, ToolCall
from app.engine.streaming.items import FinalItem, StreamedTurn
from app.engine.turn_policy import TurnPolicy
from app.engine.usage import Usage
from app.log.approvals import ApprovalRequested, ApprovalResolved, Required, Risk
from app.log.calls import (
    MessageAssistant,
    ReplyPart,
    RetrievalMissed,
    ToolCompleted,
    ToolFailed,
    ToolSettled,
    ToolStarted,
)
from app.log.envelope import Event, NewEvent, placed, wire_time
from app.log.payload import Payload, UsageTotals
from app.log.runs import (
    MessageUser,
    RunCheckpointed,
    RunPaused,
    RunResumed,
    RunStarted,
    StepCompleted,
    StepDiscarded,
    StepStarted,
    TextContent,
)
from app.turn.model.reply import encode_reply
from tests.support.stepped_clock import NOON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.agent_run import AgentRun
    from app.log.payload import JsonObject
    from app.log.queries import LogScope


def tool_call(request_id: str, tool: str = "http_post", **args: Any) -> ToolCall:
    return ToolCall(
        id=request_id,
        provider=ProviderIds(call_id=request_id),
        function=Function(name=tool, arguments=args),
    )


def malformed_call(request_id: str, tool: str = "http_post") -> ToolCall:
    return ToolCall(
        id=request_id,
        provider=ProviderIds(call_id=request_id),
        function=Function(name=tool, arguments={}, invalid_arguments="{broken"),
    )


@dataclass
class Logbook:
    """Each method appends the event of its name to `run_id` in `turn_id`; `pass_` lets time go."""

    run_id: str = "run_1"
    turn_id: str = "turn_1"
    events: list[Event] = field(default_factory=list)
    passed: float = 0.0
    step: int = 0

    def pass_(self, seconds: float) -> None:
        self.passed += seconds

    def add(self, payload: Payload, *, private: bytes | None = None, step: bool = False) -> Event:
        new = NewEvent(
            payload,
            run_id=self.run_id,
            turn_id=self.turn_id,
            step=self.step if step else None,
            private=private,
        )
        event = placed(
            new,
            conversation_id="conv_1",
            seq=len(self.events) + 1,
            at=wire_time(NOON + timedelta(seconds=self.passed)),
        )
        self.events.append(event)
        return event

    def said(self, *texts: str) -> None:
        content = tuple(TextContent(text=text) for text in texts)
        self.add(MessageUser(message_id="msg_1", content=content, principal="alice"))

    def started(self) -> None:
        self.add(RunStarted(attempt=1, worker="w"))

    def resumed(self, attempt: int = 2) -> None:
        self.turn_id = f"turn_{attempt}"
        self.add(RunResumed(attempt=attempt, worker="w"))

    def step_started(self, attempt: int = 1) -> None:
        self.step += attempt == 1
        started = StepStarted(attempt=attempt, granted=(), tainted=False, native_search=False)
        self.add(started, step=True)

    def step_discarded(self, attempt: int = 1) -> None:
        self.add(StepDiscarded(attempt=attempt, reason="interrupted"), step=True)

    def step_completed(self) -> None:
        self.add(StepCompleted(calls=0, usage=UsageTotals()), step=True)

    def reply(self, *calls: ToolCall, text: str = "", turn: int = 1) -> list[str]:
        """A whole reply; the ids of its calls."""
        content = (*((AssistantText(text=text),) if text else ()), *calls)
        ids = [f"call_{turn}_{self.step}_{index}" for index in range(len(calls))]
        parts = [ReplyPart(type="text", text=text)] if text else []
        parts += [_part(own, call) for own, call in zip(ids, calls, strict=True)]
        policy = TurnPolicy(executable_tools=tuple({call.name for call in calls}))
        private = encode_reply(
            StreamedTurn(choice=content, policy=policy),
            FinalItem(usage=Usage(input_tokens=1, output_tokens=1, total_tokens=2), raw=None),
        )
        self._message(parts, private)
        return ids

    def cut_off(self, text: str) -> None:
        """What a broken stream left: a message without the engine's form."""
        self._message([ReplyPart(type="text", text=text)] if text else [], None)

    def _message(self, parts: Sequence[ReplyPart], private: bytes | None) -> None:
        message = MessageAssistant(
            message_id="msg_2", usage=UsageTotals(), stop=None, content=tuple(parts)
        )
        self.add(message, private=private, step=True)

    def tool_started(self, call_id: str, attempt: int = 1, *, args_sha256: str = "a" * 64) -> None:
        started = ToolStarted(
            call_id=call_id,
            request_id="call_0_0",
            tool="http_post",
            args_sha256=args_sha256,
            idempotency_key=f"run_1:{call_id}",
            attempt=attempt,
        )
        self.add(started, step=True)

    def completed(self, call_id: str, result: str = "ok") -> None:
        self.add(ToolCompleted(call_id=call_id, tool="http_post", result=result), step=True)

    def failed(self, call_id: str, error: str = '{"error":"e","code":"tool_failed"}') -> None:
        self.add(
            ToolFailed(call_id=call_id, tool="http_post", error=error, code="tool_failed"),
            step=True,
        )

    def settled(self, call_id: str, result: str = '{"error":"e"}', outcome: str = "denied") -> None:
        self.add(
            ToolSettled(call_id=call_id, tool="http_post", result=result, outcome=outcome),
            step=True,
        )

    def missed(self, call_id: str, tool: str, *offered: str) -> None:
        self.add(RetrievalMissed(call_id=call_id, tool=tool, offered=offered), step=True)

    def asked(self, approval_id: str, call_id: str) -> None:
        self.add(request(approval_id, call_id, self.run_id, self.turn_id))

    def resolved(self, approval_id: str, call_id: str, status: str, by: str = "decision") -> None:
        self.add(
            ApprovalResolved.model_validate(
                {"approval_id": approval_id, "call_id": call_id, "status": status, "by": by}
            )
        )

    def checkpointed(self, run: AgentRun | bytes) -> None:
        document = run if isinstance(run, bytes) else run.dump_json().encode()
        fact = RunCheckpointed(engine_format=1, sha256="a" * 64, size_bytes=len(document))
        self.add(fact, private=document)

    def paused(self, *approvals: str) -> None:
        self.add(RunPaused(approvals=approvals, questions=()))

    # What a session reads.

    async def events_of(
        self, scope: LogScope, types: Sequence[str], *, after: int = 0, limit: int | None = None
    ) -> list[Event]:
        return [
            event
            for event in self.events
            if event.type in types and event.seq > after and scope.run_id in {None, event.run_id}
        ][:limit]


def _part(call_id: str, call: ToolCall) -> ReplyPart:
    own = {"call_id": call_id, "request_id": call.id, "tool": call.name}
    function = call.function
    if function.invalid_arguments is not None:
        return ReplyPart(type="tool_call", args_text=function.invalid_arguments, **own)
    canonical = rfc8785.dumps(cast("JsonObject", function.arguments))
    return ReplyPart(
        type="tool_call",
        args=function.arguments,
        args_canonical=canonical.decode(),
        args_sha256=sha256(canonical).hexdigest(),
        **own,
    )


def request(approval_id: str, call_id: str, run_id: str, turn_id: str) -> ApprovalRequested:
    return ApprovalRequested(
        id=approval_id,
        status="pending",
        run_id=run_id,
        conversation_id="conv_1",
        turn_id=turn_id,
        request_id="call_0_0",
        call_id=call_id,
        agent="courier",
        tool="http_post",
        title="Post",
        tool_definition_digest="d" * 64,
        args={},
        args_canonical="{}",
        args_sha256="a" * 64,
        reason="",
        required_capabilities=(),
        missing_capabilities=(),
        risk=Risk(
            destination=None,
            idempotent=False,
            session_allowed=False,
            outcome_unknown=False,
            sandbox_escalation=False,
        ),
        requested_at="2026-11-29T12:00:00.000Z",
        expires_at=None,
        required=Required(count=1, assurance="key", roles=(), allow_self=True),
    )
