"""The door to the database, and what lies behind it: reads, and the writes of one request.

Every session and transaction belongs to one tenant and sees nothing of another. A method that
changes something lives on Transaction or on Leases; there is no other way to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from app.service.ports.agents import AgentReads, AgentWrites
from app.service.ports.approvals import ApprovalReads, ApprovalWrites, QuestionReads
from app.service.ports.artifacts import ArtifactReads, ArtifactWrites
from app.service.ports.events import EventReads, EventWrites
from app.service.ports.grants import GrantReads, GrantWrites
from app.service.ports.idempotency import AnswerWrites
from app.service.ports.keys import KeyReads, KeyWrites, PasskeyReads, PasskeyWrites
from app.service.ports.memory import MemoryWrites
from app.service.ports.runs import RunReads, RunWrites
from app.service.ports.skills import SkillReads, SkillWrites

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager


class Session(
    AgentReads,
    SkillReads,
    RunReads,
    ApprovalReads,
    QuestionReads,
    EventReads,
    ArtifactReads,
    KeyReads,
    PasskeyReads,
    GrantReads,
    Protocol,
):
    """Reads of one tenant."""


class Transaction(
    Session,
    AnswerWrites,
    AgentWrites,
    SkillWrites,
    RunWrites,
    ApprovalWrites,
    EventWrites,
    ArtifactWrites,
    MemoryWrites,
    KeyWrites,
    PasskeyWrites,
    GrantWrites,
    Protocol,
):
    """One request's writes: they commit together when the block ends, or not at all."""


class Database(Protocol):
    """The door to the store."""

    def session(self, tenant: str) -> AbstractAsyncContextManager[Session]: ...
    def transaction(self, tenant: str) -> AbstractAsyncContextManager[Transaction]: ...
    async def ready(self) -> Mapping[str, Any]:
        """Facts for the readiness probe; raises StoreUnavailable when the database is not there."""
        ...
