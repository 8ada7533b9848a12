"""Folding a run from a log written by hand, and the decisions that tests fold it with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from app.log.queries import LogScope
from app.service.replay.standing import RUN_EVENTS, stalled_turns, standing
from app.turn.options import ApprovalDecision, ApprovalOverride
from tests.support.log.logbook import Logbook, tool_call
from tests.support.log.records import run_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.engine.agent_run import AgentRun
    from app.service.ports.database import Session
    from app.service.replay.fold import Standing


async def stands(log: Logbook, decided: Mapping[str, ApprovalDecision] | None = None) -> Standing:
    scope = LogScope("conv_1", "run_1")
    events = await log.events_of(scope, RUN_EVENTS)
    run = run_record(created_seq=events[0].seq)
    return await standing(cast("Session", log), run, events, decided=decided or {})


async def stalled(log: Logbook) -> int:
    return await stalled_turns(cast("Session", log), run_record())


def begun(*texts: str) -> Logbook:
    log = Logbook()
    log.said(*(texts or ("go",)))
    log.started()
    return log


def with_batch(*calls: Any) -> tuple[Logbook, list[str]]:
    log = begun()
    log.step_started()
    return log, log.reply(*(calls or (tool_call("a"), tool_call("b"))))


def decision(*, approved: bool = True, **fields: Any) -> ApprovalDecision:
    return ApprovalDecision(
        request_id="a", tool_name="http_post", args_json="{}", approved=approved, **fields
    )


def noted(text: str, edit: str = "") -> ApprovalDecision:
    return decision(override=ApprovalOverride(edit, text))


def document(run: AgentRun) -> str:
    return run.dump_json()


def paused_log() -> tuple[Logbook, list[str]]:
    log, ids = with_batch()
    log.completed(ids[0], "read")
    log.asked("appr_1", ids[1])
    return log, ids
