"""Which runs wait to be driven, and what is overdue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime


class Queue(Protocol):
    """Dispatch of woken conversations to this process."""

    async def work(
        self,
        handle: Callable[[str], Awaitable[None]],
        *,
        concurrency: int,
        has_room: Callable[[], bool] = ...,
    ) -> None:
        """Call `handle` with the id of each woken conversation until cancelled.

        What is woken in this process while it has room is handled here, ahead of the queue.
        Cancelling stops taking work; jobs in hand are the caller's to drain. `handle` never raises.
        """
        ...

    async def stranded(self) -> list[str]:
        """Conversations with a ready run and no live lease, for the recovery sweep."""
        ...

    async def overdue_approvals(self, now: datetime, limit: int) -> list[tuple[str, str]]:
        """(tenant, approval id) of approvals that are pending past their time."""
        ...

    async def overdue_questions(self, now: datetime, limit: int) -> list[tuple[str, str]]:
        """(tenant, question id) of questions that are pending past their time."""
        ...

    async def forget_answers(self, now: datetime, limit: int) -> None:
        """Remove idempotency keys of any tenant whose answer nobody may ask for any more."""
        ...

    async def forget_nonces(self, limit: int) -> None:
        """Remove nonces of any tenant whose payload can no longer be accepted."""
        ...

    async def forget_memory(self, before: datetime, limit: int) -> None:
        """Remove turns of any tenant that were remembered before then; the last with summaries."""
        ...
