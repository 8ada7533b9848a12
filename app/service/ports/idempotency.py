"""What the service needs so that a request that is sent again has its effect once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from app.log.records import StoredAnswer


class AnswerWrites(Protocol):
    """Idempotency keys, and the first answer to each."""

    async def claim_key(
        self, principal: str, key: str, *, fingerprint: str, now: datetime
    ) -> StoredAnswer | None:
        """Claim an idempotency key, waiting up to 10 s for another sender of it.

        Returns the first answer when the key was used already. Raises IdempotencyMismatch or
        IdempotencyInProgress.
        """
        ...

    async def save_answer(self, principal: str, key: str, answer: StoredAnswer) -> None: ...
