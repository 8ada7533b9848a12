"""Any prefix of a log folds, and what a model would be shown of it is sound (F52, F53, F54)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from app.log.calls import ToolAnsweredLate
from app.log.catalogue import PAYLOADS
from app.log.envelope import NewEvent, placed, wire_time
from app.log.queries import LogScope
from app.service.approvals.consents import consents
from app.service.replay.standing import RUN_EVENTS, standing
from tests.support.played.recorded_script import is_paired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.engine.agent_run import AgentRun
    from app.log.envelope import Event
    from app.log.records import RunRecord
    from app.service.ports.database import Session
    from app.turn.options import ApprovalDecision
    from tests.support.service.house import House

pytestmark = pytest.mark.postgres

FIRST = "say one\ncall read {}\n---\nsay done"
SECOND = """think hm
say let me see
call read {}
rawcall mutate bad {"n":1,"n":2}
call mutate {"n":1}
call mutate {"n":2}
---
call stamp {"n":3}
call charge {}
---
say all done"""


class Prefix:
    """The beginning of a log, as a session reads it."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    async def events_of(
        self, scope: LogScope, types: Sequence[str], *, after: int = 0, limit: int | None = None
    ) -> list[Event]:
        return [
            event
            for event in self._events
            if event.type in types and event.seq > after and scope.run_id in {None, event.run_id}
        ][:limit]


async def played(house: House) -> tuple[RunRecord, Mapping[str, ApprovalDecision]]:
    """A run after another, with an edit, a denial and notes over two pauses."""
    alice = await house.person()
    await house.agent()
    first = await house.drive(await alice.run(FIRST))
    run = await house.drive(await alice.run(SECOND, conversation_id=first.conversation_id))
    edited, denied = await house.pending(run)
    await alice.approve(edited, override_args={"n": 9}, note="nine is right")
    await alice.deny(denied, note="not two")
    run = await house.drive(run)
    (asked,) = await house.pending(run)
    await alice.approve(asked, scope="session")
    run = await house.drive(run)
    assert run.status == "completed"
    async with house.store.database.session(house.tenant) as session:
        executor = await house.binder.executor_of(session, asked)
        records = await session.consent_records(run.conversation_id, run.id)
    given = consents(run, records, executor)
    return run, given.decided


async def whole_log(house: House, run: RunRecord) -> list[Event]:
    """Every event of the conversation, with its private bytes."""
    async with house.store.database.session(house.tenant) as session:
        scope = LogScope(run.conversation_id)
        return await session.events_of(scope, list(PAYLOADS))


async def folded(
    events: Sequence[Event], run: RunRecord, decided: Mapping[str, ApprovalDecision]
) -> AgentRun:
    prefix = Prefix(events)
    own = await prefix.events_of(LogScope(run.conversation_id, run.id), RUN_EVENTS)
    return (await standing(cast("Session", prefix), run, own, decided=decided)).run


async def test_f52_any_prefix_of_a_log_folds_into_a_sound_history(house: House) -> None:
    run, decided = await played(house)
    log = await whole_log(house, run)
    said = next(e.seq for e in log if e.run_id == run.id and e.type == "message.user")
    for length in range(said, len(log) + 1):
        machine = await folded(log[:length], run, decided)
        shown = machine.full_history()
        assert is_paired(shown), log[length - 1].type
        assert machine.is_done() or shown[-1].role == "user"
    assert all(is_paired(request.messages) for request in house.script.requests)
    assert all(request.messages[-1].role == "user" for request in house.script.requests)


async def test_the_checkpoints_of_a_log_change_nothing_of_what_it_says(house: House) -> None:
    run, decided = await played(house)
    log = await whole_log(house, run)
    without = [event for event in log if event.type != "run.checkpointed"]
    whole, short = await folded(without, run, decided), await folded(log, run, decided)
    assert short.dump_json() == whole.dump_json()


async def test_f33_a_late_result_anywhere_in_a_log_changes_nothing_of_what_it_says(
    house: House,
) -> None:
    run, decided = await played(house)
    log = await whole_log(house, run)
    (done, *_) = [event for event in log if event.type == "tool.completed"]
    late = ToolAnsweredLate(
        run_id=run.id,
        call_id=done.data["call_id"],
        tool=done.data["tool"],
        result_seq=done.seq,
        failed=False,
        sha256="0" * 64,
        size_bytes=7,
    )
    heard = placed(
        NewEvent(late), conversation_id=run.conversation_id, seq=done.seq, at=wire_time(done.at)
    )
    whole = (await folded(log, run, decided)).dump_json()
    for at in range(len(log) + 1):
        again = await folded([*log[:at], heard, *log[at:]], run, decided)
        assert again.dump_json() == whole
