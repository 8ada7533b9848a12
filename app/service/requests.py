"""What a use case is asked for, and what it answers beyond a record: plain frozen values.

The edges build requests from wire documents that they have validated; nothing here knows the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pydantic import JsonValue

    from app.log.records import ApprovalRecord
    from app.log.runs import AttachmentRef

OnBusy = Literal["enqueue", "reject", "interrupt"]
Verdict = Literal["approve", "deny"]
DecisionScope = Literal["once", "session"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRequest:
    """A run to be created; `input` is the text of each part, `None` opens a new conversation.

    `caller_memory` is the JSON text of what the model is to be shown beside it.
    """

    agent: str
    input: tuple[str, ...]
    conversation_id: str | None = None
    max_steps: int | None = None
    unattended: bool = False
    on_busy: OnBusy = "enqueue"
    metadata: dict[str, JsonValue] = field(default_factory=dict)
    attachments: tuple[AttachmentRef, ...] = ()
    caller_memory: bytes | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionDraft:
    """A decision that a person is about to sign; `override_args` are arguments to run instead."""

    decision: Verdict
    scope: DecisionScope = "once"
    override_args: dict[str, JsonValue] | None = None
    note: str | None = None
    reason: str | None = None
    sandbox_mode: Literal["relaxed"] | None = None


@dataclass(frozen=True, slots=True)
class SignedPayload:
    """The payload to be signed, and the canonical text whose bytes are."""

    payload: dict[str, Any]
    canonical: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenAnswer:
    """An answer to the question of that index: an option, free text, or the word to decide alone.

    The edge sees to it that it is exactly one of the three.
    """

    index: int
    option: int | None = None
    text: str | None = None
    declined: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """The approval after a decision; `persisted` is False when the same one was there already."""

    approval: ApprovalRecord
    persisted: bool
