"""The ports of the service: what it needs of a database, in the service's own words.

`app.store` fulfils them and `app.main` puts the two together. Every session and transaction belongs
to one tenant and sees nothing of another. A method that changes something lives on Transaction or
on Leases; there is no other way to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from app.service.grant_ports import GrantReads, GrantWrites
from app.service.key_ports import KeyWrites, PasskeyReads, PasskeyWrites
from app.service.skill_ports import SkillReads, SkillTools, SkillWrites

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from app.ids import Identity
    from app.log.envelope import Event, NewEvent
    from app.log.queries import LogScope, Page, Reach
    from app.log.records import (
        AgentRecord,
        ApprovalRecord,
        ConsentRecords,
        ConversationRecord,
        DecisionClaims,
        KeyRecord,
        Lease,
        LockedApproval,
        QuestionRecord,
        RunRecord,
        SessionApprovalRecord,
        StoredAnswer,
    )
    from app.log.servers import McpListing, McpServerRecord
    from app.policy.dispatch import CallRules
    from app.runctx.shapes import ArtifactRef, NewArtifact
    from app.turn.ports import Provider, SharedFiles, ToolExecutor


class Session(SkillReads, PasskeyReads, GrantReads, Protocol):
    """Reads of one tenant."""

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

    async def approval(self, approval_id: str) -> ApprovalRecord | None: ...
    async def approvals(
        self, reach: Reach, page: Page, *, filters: Mapping[str, str]
    ) -> list[ApprovalRecord]: ...
    async def run_approvals(self, run_id: str) -> list[ApprovalRecord]: ...
    async def consent_records(self, conversation_id: str, run_id: str) -> ConsentRecords:
        """What people said about a run's calls, and about its conversation for good."""
        ...

    async def question(self, question_id: str) -> QuestionRecord | None: ...
    async def questions(
        self, reach: Reach, page: Page, *, filters: Mapping[str, str]
    ) -> list[QuestionRecord]: ...
    async def run_questions(self, run_id: str) -> list[QuestionRecord]: ...
    async def session_approvals(self, conversation_id: str) -> list[SessionApprovalRecord]: ...
    async def agent(self, name: str) -> AgentRecord | None: ...
    async def agent_and_open_runs(
        self, name: str, principal: str
    ) -> tuple[AgentRecord, int] | None:
        """The agent, and how many runs of the principal, of any agent, have not ended."""
        ...

    async def agents(self, page: Page) -> list[AgentRecord]: ...
    async def mcp_servers(self, names: Sequence[str] | None = None) -> list[McpServerRecord]:
        """The MCP servers of these names, or all of them, newest first."""
        ...

    async def key(self, key_id: str) -> KeyRecord | None: ...
    async def keys(self, principal: str, page: Page) -> list[KeyRecord]: ...
    async def events(self, scope: LogScope, *, after: int, limit: int) -> list[Event]: ...
    async def event(self, conversation_id: str, seq: int) -> Event | None: ...
    async def head(self, scope: LogScope) -> int:
        """The latest seq of that run or conversation; 0 if there is none."""
        ...

    async def events_of(
        self, scope: LogScope, types: Sequence[str], *, after: int = 0, limit: int | None = None
    ) -> list[Event]:
        """Ascending events of the given types, `private` included."""
        ...

    async def run_facts(self, run: RunRecord, *, but: Sequence[str]) -> list[Event]:
        """A run's events, ascending, deltas and the types `but` left out, `private` included."""
        ...

    async def latest(self, scope: LogScope, event_type: str) -> Event | None:
        """The newest event of that type, `private` included; flat in the length of the log."""
        ...

    async def tainted_by(self, conversation_id: str, limit: int) -> list[int]:
        """Seqs of the quarantined events, newest first."""
        ...

    async def artifact(self, artifact_id: str) -> ArtifactRef | None: ...
    async def artifacts(self, conversation_id: str, page: Page) -> list[ArtifactRef]:
        """The conversation's artifacts, newest first."""
        ...

    async def artifact_content(self, artifact: ArtifactRef) -> bytes | None:
        """The bytes, unless it was deleted meanwhile. Raises ArtifactCorrupt."""
        ...

    async def artifact_url(self, artifact: ArtifactRef, *, seconds: int) -> str | None:
        """A URL that reads the bytes for so long; None where there is none for them."""
        ...


class Transaction(Session, SkillWrites, KeyWrites, PasskeyWrites, GrantWrites, Protocol):
    """One request's writes: they commit together when the block ends, or not at all."""

    async def claim_key(
        self, principal: str, key: str, *, fingerprint: str, now: datetime
    ) -> StoredAnswer | None:
        """Claim an idempotency key, waiting up to 10 s for another sender of it.

        Returns the first answer when the key was used already. Raises IdempotencyMismatch or
        IdempotencyInProgress.
        """
        ...

    async def save_answer(self, principal: str, key: str, answer: StoredAnswer) -> None: ...
    async def lock(self, conversation_id: str) -> ConversationRecord | None:
        """The conversation, locked against every other writer until the end of the block."""
        ...

    async def lock_approval(
        self, approval_id: str, claims: DecisionClaims | None = None
    ) -> LockedApproval | None:
        """The approval under its conversation's lock, with the key, passkey and nonce claimed."""
        ...

    async def create_conversation(self, conversation_id: str, *, now: datetime) -> None:
        """A new, empty, locked conversation; its `conversation.created` must follow at once."""
        ...

    async def append(
        self, conversation_id: str, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        """Append to a conversation locked in this block, with every projection."""
        ...

    async def append_audit(self, events: Sequence[NewEvent], *, now: datetime) -> None:
        """Append to the tenant's own log."""
        ...

    async def wake(self, conversation_id: str) -> None:
        """Enqueue the conversation for whichever worker is free; part of the transaction."""
        ...

    async def revoke_lease(self, conversation_id: str) -> None:
        """Take a locked conversation from whichever worker drives it: its appends fail from now."""
        ...

    async def put_artifact(self, identity: Identity, new: NewArtifact) -> tuple[ArtifactRef, bool]:
        """Keep a staged file; with False its scope has it already, and only its trust is joined.

        Raises StoreUnavailable if its bytes are not where they are to lie.
        """
        ...

    async def delete_artifact(self, artifact: ArtifactRef) -> None: ...
    async def forget_memory(self, identity: Identity, *, run: str | None = None) -> None:
        """Forget what was remembered of the session in whichever way, or the turn of one run."""
        ...

    async def put_agent(self, agent: AgentRecord) -> None: ...
    async def delete_agent(self, name: str) -> bool: ...
    async def add_mcp_server(self, server: McpServerRecord) -> bool:
        """Add a server; False when there is one of its name."""
        ...

    async def pin_mcp_server(self, server: McpServerRecord) -> bool:
        """Pin what a server said; False when it was changed since that version was read."""
        ...

    async def delete_mcp_server(self, name: str) -> bool: ...


class Leases(Protocol):
    """Claims, and appends fenced by a claim's generation.

    A caller awaits its commit. Cancelling an append is safe: it is committed or it is not, and
    what was committed is in the log. Every method but `claim` raises LeaseLost when another worker
    has taken over.
    """

    async def claim(self, conversation_id: str, *, owner: str, ttl_s: float) -> Lease | None:
        """Take the conversation if its lease is free or over and a run is ready; else None."""
        ...

    async def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """Prolong the lease."""
        ...

    async def append(
        self, lease: Lease, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]: ...
    async def finish(
        self, lease: Lease, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        """Append the closing events, free the lease and wake the next ready run, as one."""
        ...

    async def keep(self, lease: Lease, new: NewArtifact) -> ArtifactRef:
        """Keep a file of the leased run in its conversation, for good when this returns."""
        ...


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


class Signals(Protocol):
    """Hints that something was committed. They carry no promise: readers read by seq."""

    def on_commit(self, heard: Callable[[str, Sequence[Event]], None]) -> None:
        """Called in this process right after a commit with the events it added."""
        ...

    def on_head(self, heard: Callable[[str, int], None]) -> None:
        """Called with (conversation id, head) for commits of other processes."""
        ...


class Database(Protocol):
    """The door to the store."""

    def session(self, tenant: str) -> AbstractAsyncContextManager[Session]: ...
    def transaction(self, tenant: str) -> AbstractAsyncContextManager[Transaction]: ...
    async def ready(self) -> Mapping[str, Any]:
        """Facts for the readiness probe; raises StoreUnavailable when the database is not there."""
        ...


class ServiceKeys(Protocol):
    """The public keys that the service has signed with, of all its processes."""

    async def add(self, kid: str, public_jwk: Mapping[str, str], *, now: datetime) -> None:
        """Publish a key for good; one that is there stays as it is. Raises StoreUnavailable."""
        ...

    async def all(self) -> dict[str, dict[str, str]]:
        """Every public JWK by its `kid`, oldest first. Raises StoreUnavailable."""
        ...


class McpReach(Protocol):
    """The way from this process to MCP servers."""

    async def objection(self, server: McpServerRecord) -> tuple[str, str] | None:
        """The member of a registration that can never work here, and why."""
        ...

    async def look(self, server: McpServerRecord, *, limit_s: float) -> McpListing:
        """The tools that the server lists now, or why it lists none; within that time."""
        ...


class Toolbox(SkillTools, Protocol):
    """The tools of this deployment."""

    def executor(
        self,
        *,
        tenant: str,
        conversation_id: str,
        names: Sequence[str],
        rules: CallRules,
        escape_hatch: bool,
        servers: Sequence[McpServerRecord] = (),
    ) -> ToolExecutor:
        """The tools `names`, under an agent's rules, on one workspace.

        Those of MCP servers are theirs as they are pinned in `servers`. With the escape hatch they
        need not all be offered.
        """
        ...

    def shared_files(self, *, tenant: str, conversation_id: str) -> SharedFiles:
        """The way of a conversation's files into the workspaces of its workers."""
        ...


class Providers(Protocol):
    """The models of this deployment."""

    def provider(self, model: str) -> Provider: ...
    def context_window(self, model: str) -> int | None:
        """What the model can read, in tokens, where that is known."""
        ...
