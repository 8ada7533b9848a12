"""Reads of one tenant: the port `Session`, over a pool or over a transaction's connection."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from app.store.artifacts.artifact_rows import ArtifactRows
from app.store.keys import passkeys
from app.store.rows import approval_queries, grants, mcp_servers, queries, records
from app.store.skills import StoreSkills
from app.store.texts import escape, escape_if_any, unescape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import asyncpg

    from app.log.envelope import Event
    from app.log.grants import GrantRecord, GrantUse
    from app.log.queries import LogScope, Page, Reach
    from app.log.records import (
        AgentRecord,
        ApprovalRecord,
        ConsentRecords,
        ConversationRecord,
        KeyRecord,
        PasskeyRecord,
        QuestionRecord,
        RunRecord,
        SessionApprovalRecord,
    )
    from app.log.servers import McpServerRecord
    from app.runctx.shapes import ArtifactRef
    from app.runctx.skill import Skill, SkillCard
    from app.store.artifacts.bucket import Bucket
    from app.store.server.row_security import Reader

_DELTAS: Final = frozenset({"text.delta", "reasoning.delta"})


class StoreSession:
    """Reads of one tenant."""

    def __init__(self, reader: Reader, tenant: str, bucket: Bucket | None = None) -> None:
        self._reader = reader
        self._tenant = escape(tenant)
        self._artifacts = ArtifactRows(reader, bucket)
        self._skills = StoreSkills(reader, tenant)

    async def conversation(self, conversation_id: str) -> ConversationRecord | None:
        """The conversation; an audit log is none."""
        row = await self._row(queries.CONVERSATION, escape(conversation_id))
        return None if row is None else records.conversation(row)

    async def conversations(self, reach: Reach, page: Page) -> list[ConversationRecord]:
        """Newest first; the cursor is an id."""
        rows = await self._rows(queries.CONVERSATIONS, *_within(reach, page))
        return [records.conversation(row) for row in rows]

    async def run(self, run_id: str) -> RunRecord | None:
        """The run."""
        found = await self._runs(await self._rows(queries.RUN, escape(run_id)))
        return found[0] if found else None

    async def run_and_conversation(
        self, run_id: str
    ) -> tuple[RunRecord, ConversationRecord] | None:
        """The run and the conversation it belongs to, as they were at one moment."""
        rows = await self._rows(queries.RUN_AND_CONVERSATION, escape(run_id))
        if not rows:
            return None
        (found,) = await self._runs(rows)
        return found, records.conversation(rows[0], prefix="c_")

    async def runs(
        self, reach: Reach, page: Page, *, filters: Mapping[str, str]
    ) -> list[RunRecord]:
        """Newest first; filters: status, agent, conversation_id, principal; the cursor is an id."""
        wanted = _filters(filters, ("status", "agent", "conversation_id", "principal"))
        return await self._runs(await self._rows(queries.RUNS, *_within(reach, page), *wanted))

    async def unfinished_runs(self, conversation_id: str) -> list[RunRecord]:
        """The runs that have not ended, in the order in which they will be driven."""
        return await self._runs(await self._rows(queries.UNFINISHED_RUNS, escape(conversation_id)))

    async def approval(self, approval_id: str) -> ApprovalRecord | None:
        """The approval with its decisions."""
        rows = await self._rows(approval_queries.APPROVAL, escape(approval_id))
        found = records.approvals(rows)
        return found[0] if found else None

    async def approvals(
        self, reach: Reach, page: Page, *, filters: Mapping[str, str]
    ) -> list[ApprovalRecord]:
        """Newest first; filters: status, run_id, conversation_id; the cursor is an id."""
        roles = [escape(role) for role in sorted(reach.roles)]
        wanted = _filters(filters, ("status", "run_id", "conversation_id"))
        where = (*_within(reach, page), roles, *wanted)
        return records.approvals(await self._rows(approval_queries.APPROVALS, *where))

    async def run_approvals(self, run_id: str) -> list[ApprovalRecord]:
        """All of a run's approvals, in the order in which they were asked."""
        rows = await self._rows(approval_queries.RUN_APPROVALS, escape(run_id))
        return records.approvals(rows)

    async def consent_records(self, conversation_id: str, run_id: str) -> ConsentRecords:
        """What people said about a run's calls, and about its conversation for good."""
        where = (escape(conversation_id), escape(run_id))
        return records.consents(await self._rows(approval_queries.CONSENTS, *where), run_id)

    async def question(self, question_id: str) -> QuestionRecord | None:
        """The questions of one call."""
        row = await self._row(queries.QUESTION, escape(question_id))
        return None if row is None else records.question(row)

    async def questions(
        self, reach: Reach, page: Page, *, filters: Mapping[str, str]
    ) -> list[QuestionRecord]:
        """Newest first; filters: status, run_id; the cursor is an id."""
        roles = [escape(role) for role in sorted(reach.roles)]
        wanted = _filters(filters, ("status", "run_id"))
        rows = await self._rows(queries.QUESTIONS, *_within(reach, page), roles, *wanted)
        return [records.question(row) for row in rows]

    async def run_questions(self, run_id: str) -> list[QuestionRecord]:
        """All of a run's questions, in the order in which they were asked."""
        rows = await self._rows(queries.RUN_QUESTIONS, escape(run_id))
        return [records.question(row) for row in rows]

    async def session_approvals(self, conversation_id: str) -> list[SessionApprovalRecord]:
        """The standing consents of a conversation."""
        rows = await self._rows(queries.SESSION_APPROVALS, escape(conversation_id))
        return [records.session_approval(row) for row in rows]

    async def agent(self, name: str) -> AgentRecord | None:
        """The agent as it is now."""
        row = await self._row(queries.AGENT, escape(name))
        return None if row is None else records.agent(row)

    async def agent_and_open_runs(
        self, name: str, principal: str
    ) -> tuple[AgentRecord, int] | None:
        """The agent, and how many runs of the principal have not ended."""
        row = await self._row(queries.AGENT_AND_OPEN_RUNS, escape(name), escape(principal))
        return None if row is None else (records.agent(row), row["open_runs"])

    async def agents(self, page: Page) -> list[AgentRecord]:
        """Newest first; the cursor is `<created_at ISO 8601>/<name>`. ValueError for another."""
        at, name = None, None
        if page.before is not None:
            time, _, name = page.before.partition("/")
            at = datetime.fromisoformat(time)
        rows = await self._rows(queries.AGENTS, at, name, page.limit)
        return [records.agent(row) for row in rows]

    async def mcp_servers(self, names: Sequence[str] | None = None) -> list[McpServerRecord]:
        """The MCP servers of these names, or all of them, newest first."""
        return [mcp_servers.record(row) for row in await self._rows(mcp_servers.ALL, names)]

    async def key(self, key_id: str) -> KeyRecord | None:
        """The key, revoked or not."""
        row = await self._row(queries.KEY, escape(key_id))
        return None if row is None else records.key(row)

    async def passkey(self, passkey_id: str) -> PasskeyRecord | None:
        """The passkey, revoked or not."""
        row = await self._row(passkeys.ONE, escape(passkey_id))
        return None if row is None else passkeys.record(row)

    async def passkey_of(self, thumbprint: str) -> PasskeyRecord | None:
        """The passkey of the credential with that thumbprint, revoked or not."""
        row = await self._row(passkeys.OF_CREDENTIAL, thumbprint)
        return None if row is None else passkeys.record(row)

    async def passkeys(self, principal: str, page: Page) -> list[PasskeyRecord]:
        """A principal's passkeys, newest first; the cursor is an id."""
        where = (escape(principal), escape_if_any(page.before), page.limit)
        return [passkeys.record(row) for row in await self._rows(passkeys.PAGE, *where)]

    async def keys(self, principal: str, page: Page) -> list[KeyRecord]:
        """A principal's keys, newest first; the cursor is an id."""
        rows = await self._rows(
            queries.KEYS, escape(principal), escape_if_any(page.before), page.limit
        )
        return [records.key(row) for row in rows]

    async def grant(self, grant_id: str) -> GrantRecord | None:
        """The grant, whatever has become of it."""
        row = await self._row(grants.ONE, escape(grant_id))
        return None if row is None else grants.record(row)

    async def grants(self, principal: str, page: Page) -> list[GrantRecord]:
        """A principal's grants, newest first; the cursor is an id."""
        where = (escape(principal), escape_if_any(page.before), page.limit)
        return [grants.record(row) for row in await self._rows(grants.PAGE, *where)]

    async def live_grants(
        self, principal: str, agent: str, at: datetime
    ) -> tuple[GrantRecord, ...]:
        """The grants of that principal and agent that are active then, newest first."""
        rows = await self._rows(grants.LIVE, escape(principal), escape(agent), at)
        return tuple(grants.record(row) for row in rows)

    async def grant_uses(
        self, grant_ids: Sequence[str], limit: int
    ) -> dict[str, tuple[GrantUse, ...]]:
        """Where each of the grants let a call run, newest first, at most `limit` of each."""
        rows = await self._rows(grants.USES, [escape(each) for each in grant_ids], limit)
        found = _by(rows, "grant_id")
        return {unescape(each): tuple(map(grants.use, uses)) for each, uses in found.items()}

    async def events(self, scope: LogScope, *, after: int, limit: int) -> list[Event]:
        """A page of the log, ascending, without private bytes."""
        found = (escape(scope.conversation_id), after, limit)
        if scope.run_id is None:
            return _events(await self._rows(queries.EVENTS, *found))
        return _events(await self._rows(queries.RUN_EVENTS, *found, escape(scope.run_id)))

    async def event(self, conversation_id: str, seq: int) -> Event | None:
        """One event, without private bytes."""
        row = await self._row(queries.EVENT, escape(conversation_id), seq)
        return None if row is None else records.event(row)

    async def head(self, scope: LogScope) -> int:
        """The latest seq of that run or conversation; 0 if there is none."""
        where = (self._tenant, escape(scope.conversation_id))
        if scope.run_id is None:
            head = await self._reader.fetchval(queries.HEAD, *where)
        else:
            head = await self._reader.fetchval(queries.RUN_HEAD, *where, escape(scope.run_id))
        return head or 0

    async def events_of(
        self, scope: LogScope, types: Sequence[str], *, after: int = 0, limit: int | None = None
    ) -> list[Event]:
        """Ascending events of the given types, `private` included."""
        wanted = (escape(scope.conversation_id), after, limit, list(types))
        has_deltas = not _DELTAS.isdisjoint(types)
        if scope.run_id is None:
            query = queries.EVENTS_OF if has_deltas else queries.FACTS
            return _events(await self._rows(query, *wanted))
        query = queries.RUN_EVENTS_OF if has_deltas else queries.RUN_FACTS
        return _events(await self._rows(query, *wanted, escape(scope.run_id)))

    async def run_facts(self, run: RunRecord, *, but: Sequence[str]) -> list[Event]:
        """A run's events, ascending, deltas and the types `but` left out, `private` included."""
        where = (escape(run.conversation_id), list(but), escape(run.id))
        return _events(await self._rows(queries.RUN_FACTS_BUT, *where))

    async def latest(self, scope: LogScope, event_type: str) -> Event | None:
        """The newest event of that type, `private` included; deltas are not looked for."""
        conversation_id = escape(scope.conversation_id)
        if scope.run_id is not None:
            run_id = escape(scope.run_id)
            row = await self._row(queries.RUN_LATEST, conversation_id, event_type, run_id)
        elif event_type == "run.checkpointed":
            row = await self._row(queries.LATEST_CHECKPOINT, conversation_id)
        elif event_type == "history.compacted":
            row = await self._row(queries.LATEST_COMPACTION, conversation_id)
        else:
            row = await self._row(queries.LATEST, conversation_id, event_type)
        return None if row is None else records.event(row)

    async def artifact(self, artifact_id: str) -> ArtifactRef | None:
        """The artifact without its bytes."""
        return await self._artifacts.find(unescape(self._tenant), artifact_id)

    async def artifacts(self, conversation_id: str, page: Page) -> list[ArtifactRef]:
        """A conversation's artifacts, newest first; the cursor is an id."""
        return await self._artifacts.page(unescape(self._tenant), conversation_id, page)

    async def artifact_content(self, artifact: ArtifactRef) -> bytes | None:
        """The bytes, unless it was deleted meanwhile. Raises ArtifactCorrupt."""
        return await self._artifacts.get(artifact.identity, artifact.id)

    async def artifact_url(self, artifact: ArtifactRef, *, seconds: int) -> str | None:
        """A URL that reads the bytes for so long; None where there is none for them."""
        return await self._artifacts.presigned(artifact.identity, artifact.id, seconds=seconds)

    async def skills_revision(self) -> int:
        """The revision of the tenant's skills as they are now; 0 where there never was one."""
        return await self._skills.revision()

    async def skill_cards(self, principal: str) -> list[SkillCard]:
        """The skills that the principal may see now, of each name the nearest, by name."""
        return await self._skills.cards_now(principal)

    async def owned_skills(self, owner: str) -> list[SkillCard]:
        """The skills of an owner, or with none those of everybody, as they are now."""
        return await self._skills.owned(owner)

    async def skills(self, principal: str, cards: Sequence[SkillCard]) -> list[Skill]:
        """The skills of these cards in full, in their order."""
        return await self._skills.in_full(principal, cards)

    async def tainted_by(self, conversation_id: str, limit: int) -> list[int]:
        """Seqs of the quarantined events, newest first."""
        rows = await self._rows(queries.QUARANTINED, escape(conversation_id), limit)
        return [row["seq"] for row in rows]

    async def _rows(self, query: str, *arguments: object) -> list[asyncpg.Record]:
        return await self._reader.fetch(query, self._tenant, *arguments)

    async def _row(self, query: str, *arguments: object) -> asyncpg.Record | None:
        return await self._reader.fetchrow(query, self._tenant, *arguments)

    async def _runs(self, rows: Sequence[asyncpg.Record]) -> list[RunRecord]:
        """Runs with what their pauses wait for; asked for only when one is paused."""
        paused = [row["id"] for row in rows if row["status"] == "paused"]
        if not paused:
            return [records.run(row) for row in rows]
        approvals = _by(await self._rows(queries.PENDING_APPROVALS, paused), "run_id")
        questions = _by(await self._rows(queries.PENDING_QUESTIONS, paused), "run_id")
        return [
            records.run(row, approvals.get(row["id"], ()), questions.get(row["id"], ()))
            for row in rows
        ]


def _within(reach: Reach, page: Page) -> tuple[str | None, str | None, int]:
    return escape_if_any(reach.principal), escape_if_any(page.before), page.limit


def _filters(filters: Mapping[str, str], names: Sequence[str]) -> list[str | None]:
    if unknown := filters.keys() - set(names):
        raise ValueError(f"filters must be among {names!r}, found {sorted(unknown)!r}")
    return [escape_if_any(filters.get(name)) for name in names]


def _by(rows: Iterable[asyncpg.Record], column: str) -> dict[str, list[asyncpg.Record]]:
    grouped: dict[str, list[asyncpg.Record]] = {}
    for row in rows:
        grouped.setdefault(row[column], []).append(row)
    return grouped


def _events(rows: Iterable[asyncpg.Record]) -> list[Event]:
    return [records.event(row) for row in rows]
