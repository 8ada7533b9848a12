"""What callers attach to a run, held against its conversation when they ask for it (service.md 4).

What is gone by the time the run begins is skipped there; here a wrong word is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.runctx.disposition import InvalidDisposition, parse_disposition
from app.service.refusals import AttachmentDispositionInvalid, AttachmentUnknown, FieldFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.records import ConversationRecord
    from app.log.runs import AttachmentRef
    from app.service.ports.database import Session


def require_dispositions(attached: Sequence[AttachmentRef]) -> None:
    """Raise AttachmentDispositionInvalid for the first text that is no disposition."""
    for at, one in enumerate(attached):
        if one.disposition is None:
            continue
        try:
            parse_disposition(one.disposition)
        except InvalidDisposition as error:
            fault = FieldFault(f"/attachments/{at}/disposition", error.message)
            raise AttachmentDispositionInvalid(error.message, faults=(fault,)) from error


async def require_attached(
    session: Session, conversation: ConversationRecord | None, attached: Sequence[AttachmentRef]
) -> None:
    """Raise AttachmentUnknown for the first file that the conversation does not hold."""
    for at, one in enumerate(attached):
        found = None if conversation is None else await session.artifact(one.artifact_id)
        if conversation is None or found is None or found.identity.session != conversation.id:
            fault = FieldFault(f"/attachments/{at}/artifact_id", "not in this conversation")
            message = f"the conversation has no artifact {one.artifact_id!r}"
            raise AttachmentUnknown(message, faults=(fault,))
