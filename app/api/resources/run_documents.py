"""Runs on the wire: what creates one, and how one is shown (service.md 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import orjson
from pydantic import Field, JsonValue

from app.api.wire import Body, Document, SparseDocument, Time, time_or_none
from app.engine.json.text import compact_json
from app.log.envelope import wire_time
from app.log.payload import UsageTotals
from app.log.records import RunRecord, RunStatus
from app.log.runs import AttachmentRef
from app.service.agents.spec import MAX_STEPS
from app.service.members import Metadata, Name
from app.service.requests import OnBusy, RunRequest


class TextPart(Body):
    """A part of the input."""

    type: Literal["text"]
    text: str


class Attachment(Body):
    """An artifact of the conversation, with the disposition the caller asks for."""

    artifact_id: Name
    disposition: Annotated[str, Field(max_length=255)] | None = None


class CreateRun(Body):
    """A run to be created, in a new conversation unless one is named."""

    agent: Name = Field(description="Name of an agent of the tenant")
    input: Annotated[str, Field(min_length=1)] | Annotated[list[TextPart], Field(min_length=1)] = (
        Field(description="What the user says")
    )
    conversation_id: Name | None = Field(
        default=None, description="The conversation to go on with; else a new one"
    )
    attachments: list[Attachment] = Field(
        default_factory=list, max_length=100, description="Files of the conversation"
    )
    caller_memory: JsonValue = Field(
        default=None, description="Untrusted JSON that the model is shown, at most 32 KiB"
    )
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] | None = Field(
        default=None, description="Most steps of a turn; else the agent's"
    )
    unattended: bool = Field(
        default=False, description="Nobody can be asked: what needs a person is denied"
    )
    on_busy: OnBusy = Field(
        default="enqueue",
        description="What becomes of it while another run of the conversation is open",
    )
    metadata: Metadata = Field(
        default_factory=dict, description="Kept with the run, for the caller"
    )

    def request(self) -> RunRequest:
        """What the use case is asked for."""
        said, memory = self.input, None
        if "caller_memory" in self.model_fields_set:
            # A null that was sent is a value, which the run then fails on.
            memory = compact_json(self.caller_memory).encode()
        return RunRequest(
            agent=self.agent,
            input=(said,) if isinstance(said, str) else tuple(part.text for part in said),
            conversation_id=self.conversation_id,
            max_steps=self.max_steps,
            unattended=self.unattended,
            on_busy=self.on_busy,
            metadata=self.metadata,
            caller_memory=memory,
            attachments=tuple(
                AttachmentRef(artifact_id=item.artifact_id, disposition=item.disposition)
                for item in self.attachments
            ),
        )


class PausedApproval(Document):
    """An approval that a paused run waits for."""

    id: str
    call_id: str
    tool: str
    title: str
    reason: str
    expires_at: Time | None


class PausedQuestion(Document):
    """A question that a paused run waits for."""

    id: str
    call_id: str
    expires_at: Time | None


class Pause(Document):
    """What a paused run waits for."""

    approvals: list[PausedApproval]
    questions: list[PausedQuestion]


class RunAnswer(SparseDocument):
    """What a run came to."""

    answer: str
    finish_reason: str
    tool_calls_seen: int
    answer_payload: JsonValue = None


class RunError(Document):
    """Why a run failed."""

    code: str
    message: str


class Run(Document):
    """From input to a terminal status, pauses included."""

    id: str
    conversation_id: str
    agent: str
    agent_digest: str
    principal: str
    status: RunStatus
    pause: Pause | None
    answer: RunAnswer | None
    error: RunError | None
    usage: UsageTotals
    steps: int
    tainted: bool
    unattended: bool
    head_seq: int
    created_at: Time
    started_at: Time | None
    ended_at: Time | None
    metadata: dict[str, JsonValue]


class RunList(Document):
    """A page of runs, newest first."""

    items: list[Run]
    next_cursor: str | None


def run_json(run: RunRecord) -> bytes:
    """A run as it is sent: what it answered under a schema has its exact bytes."""
    document = run_document(run)
    if run.answer is None or "answer_payload" not in run.answer:
        return document.model_dump_json().encode()
    members = document.model_dump(mode="json")
    members["answer"]["answer_payload"] = orjson.Fragment(run.answer["answer"])
    return orjson.dumps(members)


def runs_json(runs: Sequence[RunRecord], next_cursor: str | None) -> bytes:
    """A page of runs as it is sent."""
    items = [orjson.Fragment(run_json(run)) for run in runs]
    return orjson.dumps({"items": items, "next_cursor": next_cursor})


def run_document(run: RunRecord) -> Run:
    """How a run is shown."""
    return Run(
        id=run.id,
        conversation_id=run.conversation_id,
        agent=run.agent,
        agent_digest=run.agent_digest,
        principal=run.principal,
        status=run.status,
        pause=_pause(run) if run.status == "paused" else None,
        answer=None if run.answer is None else RunAnswer(**run.answer),
        error=None if run.error is None else RunError(**run.error),
        usage=run.usage,
        steps=run.steps,
        tainted=run.tainted,
        unattended=run.unattended,
        head_seq=run.head_seq,
        created_at=wire_time(run.created_at),
        started_at=time_or_none(run.started_at),
        ended_at=time_or_none(run.ended_at),
        metadata=run.metadata,
    )


def _pause(run: RunRecord) -> Pause:
    return Pause(
        approvals=[
            PausedApproval(
                id=item.id,
                call_id=item.call_id,
                tool=item.tool,
                title=item.title,
                reason=item.reason,
                expires_at=time_or_none(item.expires_at),
            )
            for item in run.pending_approvals
        ],
        questions=[
            PausedQuestion(
                id=item.id, call_id=item.call_id, expires_at=time_or_none(item.expires_at)
            )
            for item in run.pending_questions
        ],
    )
