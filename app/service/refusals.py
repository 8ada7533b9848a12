"""The refusals of the use cases: one class per fact, one stable code per class (service.md 11).

`app.api` has the one table from these codes to HTTP statuses and close codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from app.errors import TurngateError


@dataclass(frozen=True, slots=True)
class FieldFault:
    """What is wrong with one member: a JSON pointer and a sentence."""

    pointer: str
    detail: str

    @override
    def __str__(self) -> str:
        """Both in one sentence."""
        return f"at {self.pointer}: {self.detail}"


class Refusal(TurngateError):
    """A refusal that a caller sees; `faults` and `members` become part of the problem document."""

    def __init__(
        self,
        message: str,
        *,
        faults: tuple[FieldFault, ...] = (),
        members: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.faults = faults
        self.members = members or {}


class TokenRefused(Refusal):
    """The access token does not hold; nobody is told why."""

    code = "auth.token"


class ScopeMissing(Refusal):
    """The token lacks a scope."""

    code = "auth.scope"

    def __init__(self, scope: str) -> None:
        super().__init__(f"the token lacks the scope {scope!r}", members={"scope": scope})


class NotFound(Refusal):
    """There is none, or it is out of the caller's reach; the two look the same."""

    code = "not_found"

    def __init__(self, what: str = "resource") -> None:
        super().__init__(f"no such {what}")


class RequestInvalid(Refusal):
    """A body or parameter is malformed or unacceptable."""

    code = "request.invalid"


class AgentInvalid(Refusal):
    """The agent does not hold together."""

    code = "agent.invalid"


class McpInvalid(Refusal):
    """The MCP server cannot be registered so."""

    code = "mcp.invalid"


class SkillImportInvalid(Refusal):
    """A zip that is no import of skills; the message names the entry."""

    code = "skill.import_invalid"


class AgentUnknown(Refusal):
    """A run names an agent that does not exist."""

    code = "agent.unknown"


class AgentChanged(Refusal):
    """The agent is not the one that If-Match names."""

    code = "agent.changed"


class AttachmentUnknown(Refusal):
    """A run names an artifact that its conversation does not hold."""

    code = "attachment.unknown"


class AttachmentDispositionInvalid(Refusal):
    """A run asks for a disposition that is none."""

    code = "attachment.disposition_invalid"


class CallerMemoryTooLarge(Refusal):
    """What a client attached for the model to be shown is longer than that may be."""

    code = "caller_memory.too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"caller memory has at most {limit} bytes of JSON")


class ArtifactTooLarge(Refusal):
    """A file is longer than an artifact may be; nothing of it is kept."""

    code = "artifact.too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"an artifact has at most {limit} bytes")


class PresignUnsupported(Refusal):
    """The file's bytes lie where no URL leads."""

    code = "artifact.presign_unsupported"

    def __init__(self) -> None:
        super().__init__("the bytes of this artifact are read at its content")


class ConversationBusy(Refusal):
    """Another run is active, and the caller did not want to wait."""

    code = "conversation.busy"


class OpenRunsExceeded(Refusal):
    """The principal has as many open runs as it may."""

    code = "quota.open_runs"


class RunTerminal(Refusal):
    """The run is over."""

    code = "run.terminal"


class ApprovalDecided(Refusal):
    """Somebody decided otherwise before; `decided` says who and when."""

    code = "approval.decided"


class ApprovalSuperseded(Refusal):
    """A newer request took the place of this one."""

    code = "approval.superseded"


class ApprovalCancelled(Refusal):
    """The run ended before the answer."""

    code = "approval.cancelled"


class ApprovalExpired(Refusal):
    """The answer came after the request's time."""

    code = "approval.expired"


class DecisionRefusal(Refusal):
    """A decision that does not hold; the approval stays pending and the refusal is recorded."""


class DecisionMalformed(DecisionRefusal):
    """Not the wire form of a decision."""

    code = "decision.malformed"


class DecisionSignature(DecisionRefusal):
    """Unknown or revoked key, or a wrong signature."""

    code = "decision.signature"


class DecisionBinding(DecisionRefusal):
    """A signed field is not that of the approval."""

    code = "decision.binding"


class DecisionExpired(DecisionRefusal):
    """Signed for another time."""

    code = "decision.expired"


class DecisionReplayed(DecisionRefusal):
    """The nonce served another payload."""

    code = "decision.replayed"


class DecisionApprover(DecisionRefusal):
    """This person may not decide this approval."""

    code = "decision.approver"


class DecisionDuplicate(DecisionRefusal):
    """This approver decided already, and more are awaited."""

    code = "decision.duplicate"


class DecisionEdit(DecisionRefusal):
    """The edited arguments are malformed, off schema, or vetoed."""

    code = "decision.edit"


class QuestionAnswered(Refusal):
    """The question has its answer."""

    code = "question.answered"


class KeyInvalid(Refusal):
    """A key, or the proof that its owner holds it, does not hold."""

    code = "key.invalid"


class PasskeyInvalid(Refusal):
    """A passkey's registration does not hold, or there are no passkeys here."""

    code = "passkey.invalid"


class KeyTaken(Refusal):
    """The key is known under another principal."""

    code = "key.taken"


class KeyEndorsement(Refusal):
    """A further key needs the endorsement of an active one."""

    code = "key.endorsement"


class GrantInvalid(Refusal):
    """A grant that may not be, or a signed text about one that does not hold."""

    code = "grant.invalid"


class GrantEnded(Refusal):
    """The grant is over already."""

    code = "grant.ended"
