"""Running the calls that may run: concurrently, each start in the log first (turn.md 3.5).

A result passes through redaction, then the size cap, then into the transcript. Results go into the
log in source order, whatever the order of completion: each as soon as those before it are there,
and the last ones together with what follows them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.log.calls import GrantReplayed, ToolCompleted, ToolFailed, ToolStarted
from app.policy.taint import Trust, highest
from app.turn import stream, texts
from app.turn.attempt import Raised, attempt
from app.turn.limits import RESULT_CAP_BYTES
from app.turn.mutations import redacted
from app.turn.ports import ToolInvocation, ToolOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.turn.context import TurnCtx
    from app.turn.ports import Fact
    from app.turn.verdict import Start


@dataclass(frozen=True, slots=True)
class Shown:
    """A result as the model sees it, and whether and where the whole of it is kept."""

    text: str
    truncated: bool = False
    artifact_id: str | None = None


class ResultOrder:
    """The results of a batch on their way into the log, in source order."""

    def __init__(self, count: int) -> None:
        self._facts: list[Fact | None] = [None] * count
        self._released = 0

    def put(self, index: int, fact: Fact) -> list[Fact]:
        """Take the result of the call at `index`; what may go into the log now."""
        self._facts[index] = fact
        ready: list[Fact] = []
        for waiting in self._facts[self._released :]:
            if waiting is None:
                break
            ready.append(waiting)
        self._released += len(ready)
        return ready

    @property
    def is_complete(self) -> bool:
        """Whether every result has gone into the log."""
        return self._released == len(self._facts)


async def execute(ctx: TurnCtx, starts: Mapping[int, Start], order: ResultOrder) -> dict[int, str]:
    """Run the calls and return their results, by their places in `order`.

    Cancelling cancels the tools.
    """
    if not starts:
        return {}
    for start in starts.values():
        _state_start(ctx, start)
    await ctx.flush()
    for start in starts.values():
        await ctx.send(stream.ToolStarted(start.call.call_id, start.call.tool))
    ctx.executed_calls += len(starts)
    running = _Running(ctx, order, tainted=ctx.tainted)
    if len(starts) == 1:
        [(index, start)] = starts.items()
        return {index: await running.run(index, start)}
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {
                index: group.create_task(running.run(index, start))
                for index, start in starts.items()
            }
    except BaseExceptionGroup as failed:
        # Only the journal, the recorder and the stream can fail here, and each with one meaning.
        raise failed.exceptions[0] from None
    return {index: task.result() for index, task in tasks.items()}


def _state_start(ctx: TurnCtx, start: Start) -> None:
    call = start.call
    ctx.state(
        ToolStarted(
            call_id=call.call_id,
            request_id=call.request_id,
            tool=call.tool,
            args_sha256=start.args.sha256,
            idempotency_key=_key(ctx, start),
            attempt=call.attempts + 1,
            covered_by=start.covered_by,
        )
    )
    if (replay := start.replay) is not None:
        ctx.grant_replays.append(replay)
        ctx.state(
            GrantReplayed(
                call_id=replay.call_id,
                tool=replay.tool,
                grant_ref=replay.grant_ref,
                coverage_hash=replay.coverage_hash,
                cleared=replay.cleared,
            )
        )


def _key(ctx: TurnCtx, start: Start) -> str:
    return f"{ctx.run_id}:{start.call.call_id}"


class _Running:
    """The executions of one batch, under the taint that held when they began."""

    def __init__(self, ctx: TurnCtx, order: ResultOrder, *, tainted: bool) -> None:
        self._ctx = ctx
        self._order = order
        self._tainted = tainted

    async def run(self, index: int, start: Start) -> str:
        ctx = self._ctx
        began_ms = ctx.clock.now_ms()
        outcome = await redacted(ctx, start, await _invoke(ctx, start, tainted=self._tainted))
        duration_ms = max(0, ctx.clock.now_ms() - began_ms)
        trust = _tag(ctx, start, outcome)
        shown = await _shown(ctx, start, outcome, trust=trust)
        ctx.tainted = ctx.tainted or trust.taints
        fact = _result_fact(ctx, start, outcome, shown=shown, duration_ms=duration_ms, trust=trust)
        ready = self._order.put(index, fact)
        if self._order.is_complete:
            ctx.facts.extend(ready)
        elif ready:
            await ctx.journal.record(*ready)
        return shown.text


async def _invoke(ctx: TurnCtx, start: Start, *, tainted: bool) -> ToolOutcome:
    invocation = ToolInvocation(
        call_id=start.call.call_id,
        request_id=start.call.request_id,
        name=start.call.tool,
        args=start.args.value,
        args_canonical=start.args.canonical,
        idempotency_key=_key(ctx, start),
        sandbox_mode=start.sandbox_mode,
        tainted=tainted,
    )
    match await attempt(ctx.tools.execute(invocation), doing="execute", call_id=start.call.call_id):
        case Raised():
            return ToolOutcome(text=texts.tool_failed(), code="tool_failed")
        case outcome if outcome.text.isascii():
            return outcome
        case outcome:
            # A lone surrogate has no bytes, so neither log nor model can take it; it is escaped.
            escaped = outcome.text.encode(errors="backslashreplace").decode()
            return replace(outcome, text=escaped)


def _tag(ctx: TurnCtx, start: Start, outcome: ToolOutcome) -> Trust:
    """The result's tag: that of the tool's kind, joined with that of what it read."""
    if ctx.tools.ingests_untrusted_content(start.call.tool):
        return Trust.QUARANTINED_CONTENT
    return highest((Trust.UNSPECIFIED, outcome.trust))


async def _shown(ctx: TurnCtx, start: Start, outcome: ToolOutcome, *, trust: Trust) -> Shown:
    prefix = texts.edited(start.args.canonical.decode()) if start.is_edited else ""
    text = prefix + outcome.text
    if _size(text) <= RESULT_CAP_BYTES:
        return Shown(text)
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
    start: Start,
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
