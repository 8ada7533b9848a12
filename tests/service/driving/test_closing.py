"""How a turn's end becomes events: a pause, an answer, a failure (service.md 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from app.engine.agent_run import AgentRun
from app.log.approvals import ApprovalRequested, ApprovalResolved
from app.log.payload import UsageTotals
from app.log.runs import Envelope, RunCompleted, RunFailed, RunPaused
from app.service.approvals.asking import Background
from app.service.driving.closing import Turn, closing
from app.service.replay.open_questions import OpenQuestions
from app.turn.ports import FailureKind
from app.turn.result import EndedBy, MidStreamFailure, TurnFailure, TurnResult
from tests.service.turns import bound, machine, pending, result
from tests.support.log.records import approval_record, run_record
from tests.support.stepped_clock import SteppedClock
from tests.support.turn.tools import MemoryTool

if TYPE_CHECKING:
    from app.log.envelope import NewEvent


def events(of: TurnResult, **turn: Any) -> list[NewEvent]:
    plain: dict[str, Any] = {
        "run": run_record(),
        "turn_id": "turn_7",
        "bound": bound(MemoryTool("http_post")),
        "schema": None,
        "machine": machine(),
        "executed": frozenset(),
        "asked": {},
        "questions": OpenQuestions(),
        "outdated": frozenset(),
    }
    return closing(Turn(**(plain | turn)), of, background=Background(), clock=SteppedClock())


def end(of: TurnResult, **turn: Any) -> Any:
    (event,) = events(of, **turn)
    assert (event.run_id, event.turn_id) == ("run_1", "turn_7")
    return event.payload


def test_an_answer_completes_the_run_with_its_envelope() -> None:
    assert end(result(), executed={"call_1_1_0", "call_1_1_1"}) == RunCompleted(
        answer=Envelope(answer="sent", finish_reason="goal", tool_calls_seen=2),
        ended_by="answer",
        usage=UsageTotals(),
        steps=0,
    )


@dataclass(frozen=True)
class EndCase:
    name: str
    ended_by: EndedBy
    text: str
    outcome: str


ENDS = [
    EndCase("answer", EndedBy.ANSWER, "sent", "goal"),
    EndCase("an_answer_without_words", EndedBy.ANSWER, "", "goal"),
    EndCase("step_cap", EndedBy.STEP_CAP, "so far", "goal"),
    EndCase("denial_cap", EndedBy.DENIAL_CAP, "so far", "goal"),
    EndCase("step_cap_without_text", EndedBy.STEP_CAP, "", "no_path"),
    EndCase("denial_cap_with_blanks", EndedBy.DENIAL_CAP, " \n", "no_path"),
]


@pytest.mark.parametrize("case", ENDS, ids=lambda case: case.name)
def test_a_cap_completes_unless_nothing_was_said(case: EndCase) -> None:
    payload = end(result(case.ended_by, text=case.text))
    match payload:
        case RunCompleted():
            assert payload.answer.finish_reason == case.outcome
            assert payload.ended_by == case.ended_by.value
        case _:
            assert payload.code == case.outcome


@pytest.mark.parametrize("kind", list(FailureKind), ids=lambda kind: kind.value)
def test_f48_a_failed_turn_fails_the_run_with_its_kind(kind: FailureKind) -> None:
    failed = end(result(EndedBy.FAILURE, failure=TurnFailure(kind, "it broke")))
    assert failed == RunFailed(code=kind.value, message="it broke", usage=UsageTotals())


def test_a_broken_stream_fails_the_run_as_well() -> None:
    broken = MidStreamFailure(FailureKind.TIMEOUT, "cut", had_text=True)
    assert end(result(EndedBy.FAILURE, mid_stream_failure=broken)).code == "timeout"


def paused(*calls: Any, **turn: Any) -> list[NewEvent]:
    return events(result(EndedBy.PAUSE, pending_approvals=calls), **turn)


def test_t144_a_pause_is_checkpoint_requests_and_then_the_pause() -> None:
    found = paused(pending("call_1_1_0"), pending("call_1_1_1"))
    assert [event.type for event in found] == [
        "run.checkpointed",
        "approval.requested",
        "approval.requested",
        "run.paused",
    ]
    asked = [e.payload.id for e in found if isinstance(e.payload, ApprovalRequested)]
    assert found[-1].payload == RunPaused(approvals=tuple(asked), questions=())


def test_the_checkpoint_holds_the_machine_as_it_stands() -> None:
    kept = paused(pending())[0].private
    assert kept is not None
    assert AgentRun.load(kept).dump_json() == machine().dump_json()
    assert paused(pending())[0].payload.wire()["size_bytes"] == len(kept)


def test_f14_a_request_that_is_open_still_is_not_asked_a_second_time() -> None:
    """T42: the same approval, the same expiry."""
    found = paused(pending(), asked={"call_1_1_0": approval_record(id="appr_old")})
    assert [event.type for event in found] == ["run.checkpointed", "run.paused"]
    assert found[-1].payload == RunPaused(approvals=("appr_old",), questions=())


def test_a_request_that_replaces_an_open_one_is_asked() -> None:
    asked = {"call_1_1_0": approval_record(id="appr_old", status="approved")}
    assert replaced(paused(pending(supersedes="appr_old"), asked=asked)) == ("appr_old", "")


def test_a_decision_that_does_not_hold_any_more_is_replaced() -> None:
    asked = {"call_1_1_0": approval_record(id="appr_old", status="approved")}
    assert replaced(paused(pending(), asked=asked)) == ("appr_old", "")


CHANGED = "The definition of http_post has changed since this call was decided."


@pytest.mark.parametrize("status", ["pending", "approved"])
def test_f16_a_request_for_another_definition_is_replaced_and_says_so(status: str) -> None:
    asked = {"call_1_1_0": approval_record(id="appr_old", status=status)}
    found = paused(pending(definition_digest="e" * 64, reason="Tainted."), asked=asked)
    assert replaced(found) == ("appr_old", f"{CHANGED} Tainted.")


def test_f16_a_standing_consent_to_another_definition_is_mentioned() -> None:
    request = paused(pending(), outdated={"http_post"})[1].payload
    assert isinstance(request, ApprovalRequested)
    assert request.reason == CHANGED


def replaced(found: list[NewEvent]) -> tuple[str, str]:
    """The request that was replaced, and the reason that the new one gives."""
    _, resolved, request, _ = [event.payload for event in found]
    assert isinstance(resolved, ApprovalResolved)
    assert isinstance(request, ApprovalRequested)
    assert (resolved.status, resolved.superseded_by) == ("superseded", request.id)
    return resolved.approval_id, request.reason
