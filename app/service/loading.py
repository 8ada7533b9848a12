"""What a drive starts from, read in as few statements as it takes.

Every run begins here, and most of them have nothing behind them: a run that was never driven has no
approvals, and one that opened its conversation has no history and no standing consents either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.engine.output_schema import CompiledSchema
from app.log.queries import LogScope
from app.log.records import ConsentRecords
from app.service.consents import consents
from app.service.replay import RUN_EVENTS, opens_conversation, standing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.log.records import ApprovalRecord, Lease, RunRecord
    from app.service.binding import Binder, Bound
    from app.service.consents import Consents
    from app.service.ports import Session
    from app.service.replay import Standing


@dataclass(frozen=True, slots=True)
class Loaded:
    """A run as the log and the agents have it: who works, where it stands, what people said.

    `asked` are the requests about open calls, by call id; `schema` is what the answer must match.
    """

    bound: Bound
    schema: CompiledSchema | None
    standing: Standing
    consents: Consents
    asked: Mapping[str, ApprovalRecord]


class UnusableSchema(ValueError):
    """No answer could match the agent's output schema: it is none, or not complete in itself."""


async def load(session: Session, binder: Binder, lease: Lease) -> Loaded:
    """Everything that driving the leased run takes. Raises MissingSnapshot, UnusableSchema."""
    run = lease.run
    scope = LogScope(run.conversation_id, run.id)
    events = await session.events_of(scope, RUN_EVENTS)
    created = next((event for event in events if event.type == "run.created"), None)
    bound = binder.bind(lease.tenant, created, name=run.agent, present=lease.present)
    schema = _compiled(bound.agent.output_schema)
    given = await _given(session, run)
    agreed = consents(run, given, bound.executor)
    state = await standing(
        session, run, events, decided=agreed.decided, output_schema=bound.agent.output_schema
    )
    by_id = {approval.id: approval for approval in given.approvals}
    asked = {call_id: by_id[request] for call_id, request in state.requests().items()}
    return Loaded(bound, schema, state, agreed, asked)


def _compiled(schema: Mapping[str, object] | None) -> CompiledSchema | None:
    try:
        return None if schema is None else CompiledSchema(schema)
    except ValueError as error:
        raise UnusableSchema(str(error)) from error


async def _given(session: Session, run: RunRecord) -> ConsentRecords:
    if run.started_at is None and opens_conversation(run):
        return ConsentRecords()
    return await session.consent_records(run.conversation_id, run.id)
