"""The one table from codes to HTTP statuses, titles and close codes (service.md 11).

A test walks every refusal and every error of the house and looks for its line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.api.frames import CloseCode


@dataclass(frozen=True, slots=True)
class Answer:
    """How a code is told: over HTTP, and on a socket."""

    status: int
    title: str
    close: CloseCode = CloseCode.PROTOCOL


ANSWERS: Final[dict[str, Answer]] = {
    "auth.token": Answer(401, "The access token does not hold", CloseCode.AUTH),
    "decision.signature": Answer(401, "The signature does not hold"),
    "auth.scope": Answer(403, "A scope is missing", CloseCode.FORBIDDEN),
    "decision.approver": Answer(403, "This person may not decide this approval"),
    "key.endorsement": Answer(403, "An active key must endorse this one"),
    "not_found": Answer(404, "There is no such resource", CloseCode.MISSING),
    "method_not_allowed": Answer(405, "The resource does not take this method"),
    "not_acceptable": Answer(406, "The answer cannot have the form asked for"),
    "conversation.busy": Answer(409, "Another run of the conversation is active"),
    "run.terminal": Answer(409, "The run is over"),
    "approval.decided": Answer(409, "The approval was decided otherwise"),
    "approval.superseded": Answer(409, "A newer request took the approval's place"),
    "approval.cancelled": Answer(409, "The approval was cancelled"),
    "approval.expired": Answer(409, "The approval is past its time"),
    "decision.replayed": Answer(409, "The nonce was used for another decision"),
    "decision.duplicate": Answer(409, "This approver has decided already"),
    "question.answered": Answer(409, "The question has its answer"),
    "key.taken": Answer(409, "The key is registered already"),
    "grant.ended": Answer(409, "The grant is over"),
    "memory.embedder_mismatch": Answer(409, "The turns were embedded otherwise"),
    "idempotency.mismatch": Answer(409, "The key was used for another request"),
    "idempotency.in_progress": Answer(409, "The first request with the key is still running"),
    "agent.changed": Answer(412, "The agent has changed"),
    "body.too_large": Answer(413, "The body is too large"),
    "artifact.too_large": Answer(413, "The file is too large"),
    "body.media_type": Answer(415, "The body is of a type that is not taken"),
    "artifact.range": Answer(416, "The file has no such part"),
    "stream.after": Answer(422, "The log does not reach that far"),
    "request.invalid": Answer(422, "The request is malformed"),
    "agent.invalid": Answer(422, "The agent does not hold together"),
    "mcp.invalid": Answer(422, "The MCP server cannot be registered so"),
    "skill.import_invalid": Answer(422, "The skills cannot be imported"),
    "memory.semantic_disabled": Answer(422, "There is no search by meaning"),
    "agent.unknown": Answer(422, "There is no such agent"),
    "decision.malformed": Answer(422, "This is not a decision"),
    "decision.binding": Answer(422, "The decision is about another call"),
    "decision.expired": Answer(422, "The decision is out of its time"),
    "decision.edit": Answer(422, "The edited arguments cannot run"),
    "key.invalid": Answer(422, "The key or its proof does not hold"),
    "caller_memory.too_large": Answer(422, "The caller's memory is too long"),
    "passkey.invalid": Answer(422, "The passkey's registration does not hold"),
    "grant.invalid": Answer(422, "The grant, or what was signed of it, does not hold"),
    "attachment.unknown": Answer(422, "The conversation has no such artifact"),
    "attachment.disposition_invalid": Answer(422, "The artifact cannot be given so"),
    "frame.malformed": Answer(422, "The frame is malformed"),
    "frame.unknown": Answer(422, "There is no such frame"),
    "stream.ack": Answer(422, "This was not sent yet"),
    "rate.limited": Answer(429, "Too many requests", CloseCode.TOO_MANY),
    "quota.open_runs": Answer(429, "Too many open runs"),
    "internal": Answer(500, "Something went wrong here", CloseCode.INTERNAL),
    "artifact.presign_unsupported": Answer(501, "There is no URL for the file"),
    "memory.embedding_failed": Answer(503, "The query cannot be embedded just now"),
    "unavailable": Answer(503, "The service cannot answer just now", CloseCode.SLOW),
}

# Seconds after which asking again may help.
RETRY_AFTER_S: Final = {429: 5, 503: 2}


def answer_of(code: str) -> Answer:
    """The line of a code; a code without one is our own fault, so it reads as internal."""
    return ANSWERS.get(code, ANSWERS["internal"])
