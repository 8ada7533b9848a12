"""What a run that ends by force leaves behind: one result for each call, no open approval."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from app.log.queries import LogScope
from app.service.runs.settle import CALL_EVENTS, OpenCall, open_calls, settlements
from tests.support.log.logbook import Logbook, tool_call
from tests.support.log.records import approval_record, run_record

if TYPE_CHECKING:
    from app.log.records import ApprovalRecord, QuestionRecord
    from app.service.ports.database import Session


@dataclass
class Read(Logbook):
    """The log with the run's approvals beside it."""

    approvals: list[ApprovalRecord] = field(default_factory=list)
    questions: list[QuestionRecord] = field(default_factory=list)

    async def run_approvals(self, run_id: str) -> list[ApprovalRecord]:
        return self.approvals

    async def run_questions(self, run_id: str) -> list[QuestionRecord]:
        return self.questions


def with_calls(count: int) -> tuple[Read, list[str]]:
    log = Read()
    log.said("go")
    log.started()
    log.step_started()
    return log, log.reply(*[tool_call(f"r{n}") for n in range(count)])


async def settled(log: Read) -> list[tuple[str, dict[str, object]]]:
    events = await settlements(cast("Session", log), run_record())
    return [(event.type, event.payload.wire()) for event in events]


def test_a_run_that_said_nothing_left_nothing_open() -> None:
    log = Read()
    log.said("go")
    assert open_calls(log.events) == []


def test_a_call_is_open_until_its_result() -> None:
    log, (first, second, third) = with_calls(3)
    log.tool_started(first)
    log.completed(first)
    log.tool_started(second)
    assert open_calls(log.events) == [
        OpenCall(second, "http_post", "turn_1", 1, started=True),
        OpenCall(third, "http_post", "turn_1", 1, started=False),
    ]


def test_failed_and_settled_calls_are_closed() -> None:
    log, (first, second) = with_calls(2)
    log.failed(first)
    log.settled(second)
    assert open_calls(log.events) == []


async def test_f51_a_call_in_flight_is_interrupted_and_one_not_started_is_cancelled() -> None:
    log, (first, second) = with_calls(2)
    log.tool_started(first)
    assert await settled(log) == [
        (
            "tool.settled",
            {
                "call_id": first,
                "tool": "http_post",
                "result": '{"error":"interrupted, effect unknown","code":"interrupted"}',
                "outcome": "interrupted",
            },
        ),
        (
            "tool.settled",
            {
                "call_id": second,
                "tool": "http_post",
                "result": '{"error":"cancelled before start","code":"cancelled"}',
                "outcome": "cancelled",
            },
        ),
    ]


async def test_pending_approvals_are_cancelled_and_decided_ones_are_left() -> None:
    log, (call_id,) = with_calls(1)
    log.approvals = [
        approval_record(id="appr_1", status="approved"),
        approval_record(id="appr_2", call_id=call_id),
    ]
    types = await settled(log)
    assert types[0] == (
        "approval.resolved",
        {
            "approval_id": "appr_2",
            "call_id": call_id,
            "status": "cancelled",
            "by": "cancel",
            "covered_by": None,
            "superseded_by": None,
        },
    )
    assert [kind for kind, _ in types] == ["approval.resolved", "tool.settled"]


async def test_a_settled_call_belongs_to_the_step_that_emitted_it() -> None:
    log, _ = with_calls(1)
    (event,) = await settlements(cast("Session", log), run_record())
    assert (event.run_id, event.turn_id, event.step) == ("run_1", "turn_1", 1)


async def test_the_events_read_are_those_of_the_run_alone() -> None:
    log, _ = with_calls(1)
    read = await log.events_of(LogScope("conv_1", "run_2"), CALL_EVENTS)
    assert read == []
