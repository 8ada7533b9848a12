"""Payloads about what the model said and what became of each call it emitted."""

from __future__ import annotations

from typing import ClassVar, Literal

from typing_extensions import override

from app.log.payload import CoveredBy, JsonObject, Shape, UsageTotals, WorkerPayload


class ReplyPart(Shape):
    """One part of an assistant message: text, reasoning, or a tool call.

    A call carries `args` and its canonical form; a malformed one `args` null and `args_text`.
    """

    type: Literal["text", "reasoning", "tool_call"]
    text: str | None = None
    call_id: str | None = None
    request_id: str | None = None
    tool: str | None = None
    args: JsonObject | None = None
    args_canonical: str | None = None
    args_sha256: str | None = None
    args_text: str | None = None


class MessageAssistant(WorkerPayload):
    """The model's whole reply; the engine's own form of it lies in the private column."""

    TYPE: ClassVar[str] = "message.assistant"

    message_id: str
    usage: UsageTotals
    stop: str | None
    content: tuple[ReplyPart, ...]

    @override
    def wire(self) -> dict[str, object]:
        """The JSON-ready `data` member; each part has the fields of its own type alone."""
        data = super().wire()
        data["content"] = [_part(part) for part in self.content]
        return data


def _part(part: ReplyPart) -> dict[str, object]:
    if part.type != "tool_call":
        return {"type": part.type, "text": part.text}
    call = part.model_dump(mode="json", exclude={"text", "args_text"})
    if part.args is None:
        del call["args_canonical"], call["args_sha256"]
        call["args_text"] = part.args_text
    return call


GateLabel = Literal["allow", "modify", "inject_context", "escalate", "deny"]
GateRule = Literal["none", "ceiling", "veto", "capabilities", "consent", "sandbox", "transform"]


class CallGated(WorkerPayload):
    """What the gate made of one call, and by which rule."""

    TYPE: ClassVar[str] = "call.gated"

    call_id: str
    tool: str
    outcome: GateLabel
    rule: GateRule
    missing: tuple[str, ...] = ()
    reason: str = ""
    covered_by: CoveredBy | None = None


class ToolStarted(WorkerPayload):
    """An execution begins; committed before the tool is called."""

    TYPE: ClassVar[str] = "tool.started"

    call_id: str
    request_id: str
    tool: str
    args_sha256: str
    idempotency_key: str
    attempt: int
    covered_by: CoveredBy | None = None


class ToolCompleted(WorkerPayload):
    """The tool answered; `result` is the text as the model sees it."""

    TYPE: ClassVar[str] = "tool.completed"

    call_id: str
    tool: str
    result: str
    truncated: bool = False
    artifact_id: str | None = None
    duration_ms: int = 0


class ToolFailed(WorkerPayload):
    """The tool could not; `error` is the text as the model sees it."""

    TYPE: ClassVar[str] = "tool.failed"

    call_id: str
    tool: str
    error: str
    code: str
    duration_ms: int = 0


class ToolSettled(WorkerPayload):
    """A call that got its result without an execution of its own (service.md 6)."""

    TYPE: ClassVar[str] = "tool.settled"

    call_id: str
    tool: str
    result: str
    outcome: str


class ToolAnsweredLate(WorkerPayload):
    """A result came for a call that has its one result already; nothing goes on from it (F33).

    It is an event of no run, for nothing of a run comes behind its end: `run_id` says whose the
    call was, `result_seq` where its result is. `sha256` and `size_bytes` are of the text that the
    model would have got. The text itself is not kept: no rule has redacted it.
    """

    TYPE: ClassVar[str] = "tool.answered_late"

    run_id: str
    call_id: str
    tool: str
    result_seq: int
    failed: bool
    sha256: str
    size_bytes: int


class PolicyRechecked(WorkerPayload):
    """Policy tightened between approval and execution, and won (turn.md 6.4)."""

    TYPE: ClassVar[str] = "policy.rechecked"

    call_id: str
    tool: str
    reason: str


class CallDeniedUnattended(WorkerPayload):
    """Nobody could be asked, so the call was refused (turn.md 7.5)."""

    TYPE: ClassVar[str] = "call.denied_unattended"

    call_id: str
    tool: str
    args_sha256: str
    reason: str
    missing: tuple[str, ...] = ()


class DispatchMutated(WorkerPayload):
    """A rewrite, injection or redaction, recorded and signed before it applies (turn.md 7.7).

    `original_sha256` is the digest of what was: the arguments, or the result, which no log holds.
    `mutated_sha256` is that of what became of it: the new arguments or the injected text, which
    lie in the private column, or the redacted result.
    """

    TYPE: ClassVar[str] = "dispatch.mutated"

    call_id: str
    tool: str
    kind: str
    original_sha256: str
    rule: str
    mutated_sha256: str = ""
    kid: str = ""
    signature: str = ""


class RetrievalMissed(WorkerPayload):
    """The model named a tool that was not offered, and the hatch looked for it (turn.md 7.3)."""

    TYPE: ClassVar[str] = "retrieval.missed"

    call_id: str
    tool: str
    offered: tuple[str, ...]


class DelegateStarted(WorkerPayload):
    """A worker begins behind one delegating call; what it was given lies in the private column."""

    TYPE: ClassVar[str] = "delegate.started"

    call_id: str
    agent: str
    task: str


class DelegateCompleted(WorkerPayload):
    """A worker's turn ended."""

    TYPE: ClassVar[str] = "delegate.completed"

    call_id: str
    agent: str
    succeeded: bool
    error: str | None
    usage: UsageTotals
    first_party: bool
    tainted: bool


class GrantReplayed(WorkerPayload):
    """A remembered grant lifted the taint revocation for one call (turn.md 6.8)."""

    TYPE: ClassVar[str] = "grant.replayed"

    call_id: str
    tool: str
    grant_ref: str
    coverage_hash: str
    cleared: tuple[str, ...]
