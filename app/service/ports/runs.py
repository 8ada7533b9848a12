"""What the service reads of conversations and their runs, and how it takes hold of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from app.log.queries import Page, Reach
    from app.log.records import ConversationRecord, RunRecord


class RunReads(Protocol):
    """Reads of a tenant's conversations and runs."""

    async def conversation(self, conversation_id: str) -> ConversationRecord | None: ...
    async def conversations(self, reach: Reach, page: Page) -> list[ConversationRecord]: ...
    async def run(self, run_id: str) -> RunRecord | None: ...
    async def run_and_conversation(
        self, run_id: str
    ) -> tuple[RunRecord, ConversationRecord] | None:
        """The run and the conversation it belongs to, as they were at one moment."""
        ...

    async def runs(
        self, reach: Reach, page: Page, *, filters: Mapping[str, str]
    ) -> list[RunRecord]: ...
    async def unfinished_runs(self, conversation_id: str) -> list[RunRecord]:
        """The runs that have not ended, in the order in which they will be driven."""
        ...


class RunWrites(Protocol):
    """The hold on a conversation while something is written about its runs."""

    async def lock(self, conversation_id: str) -> ConversationRecord | None:
        """The conversation, locked against every other writer until the end of the block."""
        ...

    async def create_conversation(self, conversation_id: str, *, now: datetime) -> None:
        """A new, empty, locked conversation; its `conversation.created` must follow at once."""
        ...

    async def wake(self, conversation_id: str) -> None:
        """Enqueue the conversation for whichever worker is free; part of the transaction."""
        ...

    async def revoke_lease(self, conversation_id: str) -> None:
        """Take a locked conversation from whichever worker drives it: its appends fail from now."""
        ...
