"""Results on their way into the log: tagged, capped for the model, and in source order (3.5).

A result passes through redaction, then the size cap, then into the transcript. Results go into the
log in source order, whatever the order of completion: each as soon as those before it are there,
and the last ones together with what follows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.log.calls import ToolCompleted, ToolFailed
from app.policy.taint import Trust, highest
from app.turn import texts
from app.turn.execution.mutations import redacted
from app.turn.gate.verdict import Start
from app.turn.limits import RESULT_CAP_BYTES

if TYPE_CHECKING:
    from app.turn.gate.verdict import Delegation
    from app.turn.ports import Fact, ToolOutcome
    from app.turn.state.context import TurnCtx


@dataclass(frozen=True, slots=True)
class Shown:
    """A result as the model sees it, and whether and where the whole of it is kept."""

    text: str
    truncated: bool = False
    artifact_id: str | None = None


class ResultOrder:
    """The results of a batch on their way into the log, in source order."""

    def __init__(self, count: int) -> None:
        self._facts: list[tuple[Fact, ...] | None] = [None] * count
        self._released = 0

    def put(self, index: int, *facts: Fact) -> list[Fact]:
        """Take the result of the call at `index`, or none; what may go into the log now."""
        self._facts[index] = facts
        ready: list[Fact] = []
        for waiting in self._facts[self._released :]:
            if waiting is None:
                break
            ready.extend(waiting)
            self._released += 1
        return ready

    @property
    def is_complete(self) -> bool:
        """Whether every result has gone into the log."""
        return self._released == len(self._facts)


async def told(
    ctx: TurnCtx, begun: Start | Delegation, outcome: ToolOutcome, *, began_ms: int
) -> tuple[str, Fact]:
    """What the model is told of an outcome, and its fact. The turn has the result's taint now."""
    outcome = await redacted(ctx, begun, outcome)
    duration_ms = max(0, ctx.clock.now_ms() - began_ms)
    trust = _tag(ctx, begun, outcome)
    shown = await _shown(ctx, begun, outcome, trust=trust)
    ctx.tainted = ctx.tainted or trust.taints
    fact = _result_fact(ctx, begun, outcome, shown=shown, duration_ms=duration_ms, trust=trust)
    return shown.text, fact


def _tag(ctx: TurnCtx, start: Start | Delegation, outcome: ToolOutcome) -> Trust:
    """The result's tag: that of the tool's kind, joined with that of what it read."""
    if isinstance(start, Start) and ctx.tools.ingests_untrusted_content(start.call.tool):
        return Trust.QUARANTINED_CONTENT
    return highest((Trust.UNSPECIFIED, outcome.trust))


async def _shown(
    ctx: TurnCtx, start: Start | Delegation, outcome: ToolOutcome, *, trust: Trust
) -> Shown:
    is_edited = isinstance(start, Start) and start.is_edited
    prefix = texts.edited(start.args.canonical.decode()) if is_edited else ""
    text = prefix + outcome.text
    if _size(text) <= RESULT_CAP_BYTES:
        return Shown(text)
    if ctx.tainted:
        # The context that made the call is an input of what came of it.
        trust = Trust.QUARANTINED_CONTENT
    artifact_id = await ctx.journal.keep_result(start.call.call_id, outcome.text, trust=trust)
    shown = cut(text, _size(outcome.text), artifact_id)
    return Shown(shown, truncated=True, artifact_id=artifact_id)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def cut(text: str, size: int, artifact_id: str | None) -> str:
    """The beginning of a long text, cut between two characters, with a marker; within the cap."""
    marker = texts.cut_marker(size, artifact_id)
    kept = text.encode()[: RESULT_CAP_BYTES - len(marker.encode())]
    return kept.decode(errors="ignore") + marker


def _result_fact(
    ctx: TurnCtx,
    start: Start | Delegation,
    outcome: ToolOutcome,
    *,
    shown: Shown,
    duration_ms: int,
    trust: Trust,
) -> Fact:
    call = start.call
    if outcome.code is None:
        return ctx.fact(
            ToolCompleted(
                call_id=call.call_id,
                tool=call.tool,
                result=shown.text,
                truncated=shown.truncated,
                artifact_id=shown.artifact_id,
                duration_ms=duration_ms,
            ),
            trust=trust,
        )
    return ctx.fact(
        ToolFailed(
            call_id=call.call_id,
            tool=call.tool,
            error=shown.text,
            code=outcome.code,
            duration_ms=duration_ms,
        ),
        trust=trust,
    )
