"""The payload about an attachment, as it went along with its run."""

from __future__ import annotations

from typing import ClassVar, Literal

from app.log.payload import Payload

Layer = Literal["caller_hint", "agent_policy", "runtime_default"]
Reason = Literal[
    "inline_unsupported_mime",
    "unknown_tool",
    "invalid_disposition",
    "inline_too_large",
    "bytes_unavailable",
]
TrustTag = Literal["unspecified", "trusted_user", "quarantined_content"]


class AttachmentResolved(Payload):
    """How an attachment reaches the model, who chose so, and what of the choice did not hold.

    `trust` is the file's own; the event has it too where the content itself reaches the model.
    """

    TYPE: ClassVar[str] = "attachment.resolved"

    artifact_id: str
    mime: str
    media_type: str
    size_bytes: int
    disposition: str
    layer: Layer
    degraded: bool = False
    degraded_from: str | None = None
    degradation_reason: Reason | None = None
    tool: str | None = None
    trust: TrustTag
