"""What a drive starts from, read in as few statements as it takes.

Every run begins here, and most of them have nothing behind them: a run that was never driven has no
approvals, and one that opened its conversation has no history and no standing consents either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from app.engine.output_schema import CompiledSchema
from app.ids import Identity
from app.log.queries import LogScope
from app.log.records import ConsentRecords
from app.service.answers import verified_answers
from app.service.binding import RunPlace
from app.service.consents import consents
from app.service.history import user_texts
from app.service.run_context import Beginning, CannotStart, assemble, kept_context
from app.service.standing import RUN_EVENTS, opens_conversation, standing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from app.log.envelope import Event
    from app.log.records import ApprovalRecord, Lease, RunRecord
    from app.service.binding import Binder, Bound
    from app.service.consents import Consents
    from app.service.ports import Session
    from app.service.replay import Standing
    from app.service.run_context import KeptContext
    from app.service.statements import Statements
    from app.turn.options import VerifiedAnswer


@dataclass(frozen=True, slots=True)
class Loaded:
    """A run as the log and the agents have it: who works, where it stands, what people said.

    `asked` are the requests about open calls, by call id; `schema` is what the answer must match,
    and `context` what stands beside instructions and history.
    """

    bound: Bound
    schema: CompiledSchema | None
    standing: Standing
    consents: Consents
    answers: Sequence[VerifiedAnswer]
    asked: Mapping[str, ApprovalRecord]
    context: KeptContext


class UnusableSchema(CannotStart):
    """No answer could match the agent's output schema: it is none, or not complete in itself."""

    code: ClassVar[str] = "output_invalid"


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads leased runs: agents are bound by `binder`, answers held against `statements`."""

    binder: Binder
    statements: Statements

    async def load(self, session: Session, lease: Lease, *, now: datetime) -> Loaded:
        """Everything that driving the leased run takes. Raises MissingSnapshot, CannotStart."""
        run = lease.run
        scope = LogScope(run.conversation_id, run.id)
        events = await session.events_of(scope, RUN_EVENTS)
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
        given = await _given(session, run)
        agreed = consents(run, given, bound.executor)
        answers = await verified_answers(self.statements, run, events)
        state = await standing(
            session,
            run,
            events,
            decided=agreed.decided,
            output_schema=bound.agent.output_schema,
            replays=bound.spec.memory.replays_conversation,
        )
        context = kept or await assemble(
            bound, _beginning(lease, events, state, place=place, now=now)
        )
        if context.blocks:
            bound = replace(bound, agent=replace(bound.agent, context=context.blocks))
        by_id = {approval.id: approval for approval in given.approvals}
        asked = {call_id: by_id[request] for call_id, request in state.requests().items()}
        return Loaded(bound, schema, state, agreed, _to_open_calls(answers, state), asked, context)

    async def _skills_revision(
        self, session: Session, created: Event | None, kept: KeptContext | None
    ) -> int | None:
        """The revision that the run's skills are fixed at; None for one that reads none."""
        if kept is not None:
            return kept.skills_revision
        return await session.skills_revision() if self.binder.reads_skills(created) else None


def _beginning(
    lease: Lease, events: Sequence[Event], state: Standing, *, place: RunPlace, now: datetime
) -> Beginning:
    """The run as it begins; what its caller attached lies beside what they said."""
    run = lease.run
    said = next(event for event in events if event.type == "message.user")
    return Beginning(
        identity=Identity(lease.tenant, run.principal, run.conversation_id, run.id),
        said=state.user_text,
        caller_memory=said.private,
        replayed=user_texts(state.run.input_history()),
        skills_revision=place.skills_revision,
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
