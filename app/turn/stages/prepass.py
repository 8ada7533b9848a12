"""The resume pre-pass: calls an earlier turn left open are resolved before the model is asked.

A decision takes effect here whether or not the model repeats itself (turn.md 4). Everything comes
from the transcript and the options; no process remembers anything between turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from app.engine.messages import AssistantMessage
from app.engine.turn_content import tool_calls
from app.turn.model.step import state_step_completed
from app.turn.result import EndedBy
from app.turn.stages.batch import resolve_batch
from app.turn.stages.decision_report import report_prepass
from app.turn.state.call import dangling_calls
from app.turn.state.context import StepOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.turn.options import ApprovalOverride, Identity
    from app.turn.ports import ToolSpec
    from app.turn.state.context import TurnCtx

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ResumePrePass:
    """Resolves dangling calls. The fields say what was forwarded; what remains rides the turn."""

    tool_specs: Sequence[ToolSpec]
    approved_overrides: Mapping[Identity, ApprovalOverride]
    denied_call_ids: frozenset[Identity]

    async def run(self, ctx: TurnCtx) -> StepOutcome:
        """PAUSE if anything still waits for a person; the model is not asked then."""
        forwarded, pending = len(ctx.ledger), ctx.run.pending_tool_calls()
        if not pending:
            report_prepass(ctx, (), forwarded=forwarded)
            return StepOutcome.CONTINUE
        _log.info(
            "turn.resumed",
            turn_id=ctx.turn_id,
            open_calls=len(pending),
            tools=len(self.tool_specs),
            edits=len(self.approved_overrides),
            denials=len(self.denied_call_ids),
        )
        verdicts = await resolve_batch(ctx, dangling_calls(pending, ctx.transcript.open_calls))
        report_prepass(ctx, verdicts, forwarded=forwarded)
        if ctx.waits_for_people:
            ctx.ended_by = EndedBy.PAUSE
            return StepOutcome.PAUSE
        state_step_completed(ctx, calls=_calls_of_batch(ctx))
        return StepOutcome.CONTINUE


def _calls_of_batch(ctx: TurnCtx) -> int:
    """How many calls the reply holds that the results just closed."""
    replies = [one for one in ctx.run.messages() if isinstance(one, AssistantMessage)]
    return len(tool_calls(replies[-1].content))
