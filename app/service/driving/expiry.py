"""What is pending past its time: approvals become denials of nobody, questions resolve themselves.

A sweep ends a bounded number of each, so that nothing else of a worker waits for it for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from app.service.approvals.use_cases import Approvals
    from app.service.clock import Clock
    from app.service.ports.queue import Queue
    from app.service.questions.use_cases import Questions

OVERDUE_AT_ONCE: Final = 100


class Expiry:
    """Ends what is overdue."""

    def __init__(
        self, *, queue: Queue, approvals: Approvals, questions: Questions, clock: Clock
    ) -> None:
        self._queue = queue
        self._approvals = approvals
        self._questions = questions
        self._clock = clock

    async def sweep(self) -> None:
        """End what is past its time by now. Raises StoreUnavailable."""
        now = self._clock.now()
        for tenant, approval_id in await self._queue.overdue_approvals(now, OVERDUE_AT_ONCE):
            await self._approvals.expire(tenant, approval_id)
        for tenant, question_id in await self._queue.overdue_questions(now, OVERDUE_AT_ONCE):
            await self._questions.expire(tenant, question_id)
