"""What a drive starts from, read in as few statements as it takes.

Every run begins here, and most of them have nothing behind them: a run that was never driven has no
approvals, and one that opened its conversation has no history and no standing consents either.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from app.engine.json.output_schema import CompiledSchema
from app.ids import Identity
from app.log.catalogue import refuse_unknown
from app.log.records import ConsentRecords
from app.service.agents.binding import RunPlace
from app.service.approvals.consents import consents
from app.service.context.assembly import Beginning, CannotStart, assemble, kept_context
from app.service.context.attachments import (
    ConversationFiles,
    RunFiles,
    RunTools,
    attachments,
    with_bytes,
)
from app.service.context.compaction import newest_summary, own_summary, shown_of
from app.service.grants.live import remembered_grants
from app.service.questions.answers import verified_answers
from app.service.replay.history import user_texts
from app.service.replay.standing import UNREAD_EVENTS, EarlierRuns, opens_conversation, standing
from app.turn.transcript import steps_taken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from app.log.envelope import Event
    from app.log.records import ApprovalRecord, Lease, RunRecord
    from app.policy.grants import RememberedGrant
    from app.service.agents.binding import Binder, Bound
    from app.service.approvals.consents import Consents
    from app.service.context.assembly import KeptContext
    from app.service.context.compaction import Compaction, Summary
    from app.service.ports.database import Database, Session
    from app.service.replay.fold import Standing
    from app.service.statements import Statements
    from app.turn.options import VerifiedAnswer


@dataclass(frozen=True, slots=True)
class Loaded:
    """A run as the log and the agents have it: who works, where it stands, what people said.

    `grants` are the remembered ones that may serve, by tool. `asked` are the requests about open
    calls, by call id; `schema` is what the answer must match, and `context` what stands beside
    instructions and history.
    """

    bound: Bound
    schema: CompiledSchema | None
    standing: Standing
    consents: Consents
    grants: Mapping[str, tuple[RememberedGrant, ...]]
    answers: Sequence[VerifiedAnswer]
    asked: Mapping[str, ApprovalRecord]
    context: KeptContext


class UnusableSchema(CannotStart):
    """No answer could match the agent's output schema: it is none, or not complete in itself."""

    code: ClassVar[str] = "output_invalid"


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads leased runs: agents are bound by `binder`, answers held against `statements`."""

    database: Database
    binder: Binder
    statements: Statements
    compaction: Compaction

    async def load(self, session: Session, lease: Lease, *, now: datetime) -> Loaded:
        """Everything that driving the leased run takes.

        Raises MissingSnapshot, CannotStart and UnknownEventType.
        """
        run = lease.run
        # Both at once: under the lease nobody can be asked, or answer, between the two.
        events, given = await asyncio.gather(
            session.run_facts(run, but=UNREAD_EVENTS), _given(session, run)
        )
        refuse_unknown(event.type for event in events)
        created = next((event for event in events if event.type == "run.created"), None)
        kept = kept_context(events)
        place = RunPlace(
            lease.tenant,
            run.principal,
            await self.binder.fresh_servers(lease.tenant, created),
            await self._skills_revision(session, created, kept),
        )
        bound = await self.binder.bound(
            session, created, place=place, name=run.agent, present=lease.present
        )
        schema = _compiled(bound.agent.output_schema)
        agreed = consents(run, given, bound.executor)
        grants = await remembered_grants(session, lease, bound, now=now)
        answers = await verified_answers(self.statements, run, events)
        memory = bound.spec.memory
        began_with = await self._summary(session, run, bound, kept)
        state = await standing(
            session,
            run,
            events,
            decided=agreed.decided,
            output_schema=bound.agent.output_schema,
            earlier=EarlierRuns(began_with) if memory.replays_conversation else None,
        )
        own = own_summary(events)
        state.folded = shown_of(own, began_with)
        files = ConversationFiles(session, trusts_uploads=bound.trusts_uploads)
        beginning = _beginning(lease, events, state, place=place, summary=began_with, now=now)
        context = kept or await assemble(bound, beginning, files)
        compactor = self.compaction.compactor(lease, bound.spec, began_with=began_with, own=own)
        views = context.views
        if views and not steps_taken(state.run):
            views = await with_bytes(views, files, beginning.identity)
        attached = attachments(
            views,
            RunTools(bound),
            identity=beginning.identity,
            read=RunFiles(self.database, beginning.identity).read,
        )
        agent = replace(
            bound.agent, context=context.blocks, attachments=attached, compactor=compactor
        )
        bound = replace(bound, agent=agent)
        by_id = {approval.id: approval for approval in given.approvals}
        asked = {call_id: by_id[request] for call_id, request in state.requests().items()}
        to_open = _to_open_calls(answers, state)
        return Loaded(bound, schema, state, agreed, grants, to_open, asked, context)

    async def _summary(
        self, session: Session, run: RunRecord, bound: Bound, kept: KeptContext | None
    ) -> Summary | None:
        """What an earlier run left of the history that this one begins with."""
        memory = bound.spec.memory
        if kept is not None:
            return kept.summary
        replays = memory.replays_conversation and not opens_conversation(run)
        if not replays or not memory.compaction.enabled:
            return None
        return await newest_summary(session, run.conversation_id)

    async def _skills_revision(
        self, session: Session, created: Event | None, kept: KeptContext | None
    ) -> int | None:
        """The revision that the run's skills are fixed at; None for one that reads none."""
        if kept is not None:
            return kept.skills_revision
        return await session.skills_revision() if self.binder.reads_skills(created) else None


def _beginning(
    lease: Lease,
    events: Sequence[Event],
    state: Standing,
    *,
    place: RunPlace,
    summary: Summary | None,
    now: datetime,
) -> Beginning:
    """The run as it begins; what its caller attached lies beside what they said."""
    run = lease.run
    said = next(event for event in events if event.type == "message.user")
    created = next(event for event in events if event.type == "run.created")
    return Beginning(
        identity=Identity(lease.tenant, run.principal, run.conversation_id, run.id),
        said=state.user_text,
        caller_memory=said.private,
        attached=created.data.get("attachments", ()),
        replayed=user_texts(state.run.input_history()),
        skills_revision=place.skills_revision,
        summary=summary,
        at=now,
    )


def _to_open_calls(
    answers: Sequence[VerifiedAnswer], state: Standing
) -> tuple[VerifiedAnswer, ...]:
    return tuple(one for one in answers if one.call_id not in state.answered)


def _compiled(schema: Mapping[str, object] | None) -> CompiledSchema | None:
    try:
        return None if schema is None else CompiledSchema(schema)
    except ValueError as error:
        raise UnusableSchema(str(error)) from error


async def _given(session: Session, run: RunRecord) -> ConsentRecords:
    if run.started_at is None and opens_conversation(run):
        return ConsentRecords()
    return await session.consent_records(run.conversation_id, run.id)
