"""Payloads about conversations, messages and the life of a run."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import orjson
from pydantic import Field, JsonValue
from typing_extensions import override

from app.log.payload import JsonObject, Payload, Shape, UsageTotals, WorkerPayload


class ConversationCreated(Payload):
    """The first event of every conversation."""

    TYPE: ClassVar[str] = "conversation.created"

    principal: str
    participants: tuple[str, ...] = ()
    title: str | None = None
    metadata: JsonObject = Field(default_factory=dict)


class ConversationUpdated(Payload):
    """Title, participants or metadata as they are from now on, under the names in `changed`."""

    TYPE: ClassVar[str] = "conversation.updated"

    changed: JsonObject
    by: str


class LogSealed(Payload):
    """The service's signature over `count` events, the last of which has the hash `root`."""

    TYPE: ClassVar[str] = "log.sealed"

    from_seq: int
    through_seq: int
    count: int
    root: str
    kid: str
    signature: str


class AttachmentRef(Shape):
    """An artifact handed to a run, with the disposition its caller asked for."""

    artifact_id: str
    disposition: str | None = None


class RunCreated(Payload):
    """A run was accepted. The agent's snapshot lies beside it, in the private column."""

    TYPE: ClassVar[str] = "run.created"

    agent: str
    agent_digest: str
    principal: str
    unattended: bool = False
    on_busy: Literal["enqueue", "reject", "interrupt"] = "enqueue"
    max_steps: int | None = None
    attachments: tuple[AttachmentRef, ...] = ()
    metadata: JsonObject = Field(default_factory=dict)


class TextContent(Shape):
    """One text part of a user's message."""

    type: Literal["text"] = "text"
    text: str


class MessageUser(Payload):
    """What the caller said to start a run."""

    TYPE: ClassVar[str] = "message.user"

    message_id: str
    content: tuple[TextContent, ...]
    principal: str


class RunStarted(Payload):
    """A worker process took the run up for the first time."""

    TYPE: ClassVar[str] = "run.started"

    attempt: int
    worker: str


class RunResumed(Payload):
    """A worker process took the run up again, after a pause or after another worker's end."""

    TYPE: ClassVar[str] = "run.resumed"

    attempt: int
    worker: str
    approvals: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


class RecallFacts(Shape):
    """Where the turns went that were found by meaning: counts and sizes."""

    top_k: int
    returned: int
    kept: int
    dropped_non_finite: int
    dropped_by_floor: int
    dropped_by_window: int
    dropped_by_duplicate: int
    dropped_by_budget: int
    truncated_texts: int
    kept_bytes: int
    unindexed: int
    top_score: float | None


class ContextAssembled(Payload):
    """The model's context was built, once per run; its exact bytes lie in the private column.

    `skills` counts the entries of the directory as of `skills_revision`, which is null where the
    run reads no skills. What is said of memory is absent where there is nothing to say: the tiers
    that are shown, the recall, why there was none, the turns that are in neither window nor
    summary, and the size of what the caller attached.
    """

    TYPE: ClassVar[str] = "context.assembled"

    sha256: str
    size_bytes: int
    history_messages: int = 0
    attachments_skipped: tuple[JsonObject, ...] = ()
    skills: int = 0
    skills_revision: int | None = None
    tiers: tuple[str, ...] = ()
    recall: RecallFacts | None = None
    recall_skipped: Literal["empty_query"] | None = None
    unfolded_turns: int = 0
    caller_memory_bytes: int = 0

    _OF_MEMORY: ClassVar = (
        "tiers",
        "recall",
        "recall_skipped",
        "unfolded_turns",
        "caller_memory_bytes",
    )

    @override
    def wire(self) -> dict[str, Any]:
        """The JSON-ready `data` member, without what memory has nothing to say of."""
        silent = {name for name in self._OF_MEMORY if not getattr(self, name)}
        return self.model_dump(mode="json", exclude=silent)


class MemoryWritten(Payload):
    """The finished exchange was remembered, or not: then `error` says why (run-context.md 9.2)."""

    TYPE: ClassVar[str] = "memory.written"

    written: bool
    turn_id: str | None = None
    health: Literal["healthy", "retry", "degraded", "recovering"] | None = None
    error: str | None = None


class HistoryCompacted(Payload):
    """Messages of the history were folded into a summary, whose text lies in the private column.

    What the model is shown from now on: the summary, the message of the user at `pinned_seq`, and
    what came after `through_seq`. `messages` are those folded, `model` wrote the summary.
    """

    TYPE: ClassVar[str] = "history.compacted"

    reason: Literal["message_count", "token_budget"]
    from_seq: int
    through_seq: int
    pinned_seq: int | None
    messages: int
    tokens_before: int
    tokens_after: int
    summary_sha256: str
    prior_sha256: str | None
    model: str


class RunPaused(Payload):
    """The run waits for people; its lease is free."""

    TYPE: ClassVar[str] = "run.paused"

    approvals: tuple[str, ...]
    questions: tuple[str, ...]


class RunCheckpointed(WorkerPayload):
    """The AgentRun document, `raw` null, lies in the private column (service.md 6)."""

    TYPE: ClassVar[str] = "run.checkpointed"

    engine_format: int
    sha256: str
    size_bytes: int


class Envelope(Shape):
    """The stored answer of a run (run-context.md 3).

    With an output schema `answer` is the exact text of the payload, which `answer_payload` repeats
    as JSON; without one that member is absent, not null.
    """

    answer: str
    finish_reason: str
    tool_calls_seen: int
    answer_payload: JsonValue = None

    @property
    def has_payload(self) -> bool:
        """Whether the answer has the form of a schema."""
        return "answer_payload" in self.model_fields_set

    def text(self) -> bytes:
        """The envelope's JSON, with the payload as it was given, to the byte."""
        members = self.model_dump(mode="json", exclude={"answer_payload"})
        if self.has_payload:
            members["answer_payload"] = orjson.Fragment(self.answer)
        return orjson.dumps(members)


class RunCompleted(Payload):
    """The run ended with an answer."""

    TYPE: ClassVar[str] = "run.completed"

    answer: Envelope
    ended_by: str
    usage: UsageTotals
    steps: int

    @override
    def wire(self) -> dict[str, Any]:
        """The JSON-ready `data` member, the answer as its exact text."""
        data = super().wire()
        if self.answer.has_payload:
            return {**data, "answer": orjson.Fragment(self.answer.text())}
        del data["answer"]["answer_payload"]
        return data


class RunFailed(Payload):
    """The run ended without one; `code` is of service.md 11."""

    TYPE: ClassVar[str] = "run.failed"

    code: str
    message: str
    usage: UsageTotals


class RunCancelled(Payload):
    """Somebody ended the run."""

    TYPE: ClassVar[str] = "run.cancelled"

    by: str
    reason: str


class StepStarted(WorkerPayload):
    """One attempt at a model call begins under these capabilities."""

    TYPE: ClassVar[str] = "step.started"

    attempt: int
    granted: tuple[str, ...]
    tainted: bool
    native_search: bool


class StepDiscarded(WorkerPayload):
    """Takes back the deltas of an attempt that a crash or a broken stream cut off."""

    TYPE: ClassVar[str] = "step.discarded"

    attempt: int
    reason: str


class StepCompleted(WorkerPayload):
    """Every call of the step has its result."""

    TYPE: ClassVar[str] = "step.completed"

    calls: int
    usage: UsageTotals


class TextDelta(WorkerPayload):
    """Streamed text, gathered."""

    TYPE: ClassVar[str] = "text.delta"

    text: str


class ReasoningDelta(WorkerPayload):
    """Streamed reasoning, gathered; never part of the answer."""

    TYPE: ClassVar[str] = "reasoning.delta"

    text: str
