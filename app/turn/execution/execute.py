"""Running what may run: calls and delegations together, each start in the log first (turn.md 3.5).

What becomes of their outcomes, and in which order they go into the log, is for `results` to say.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from app.log.calls import GrantReplayed, ToolStarted
from app.turn import stream, texts
from app.turn.attempt import Raised, attempt
from app.turn.execution.results import told
from app.turn.execution.worker import Answered, Asked, begin, work
from app.turn.gate.verdict import Delegation, Start
from app.turn.limits import BATCH_CONCURRENCY
from app.turn.ports import StepRefused, ToolInvocation, ToolOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.turn.execution.results import ResultOrder
    from app.turn.execution.worker import Office
    from app.turn.ports import Fact
    from app.turn.state.context import TurnCtx


async def execute(
    ctx: TurnCtx, begun: Mapping[int, Start | Delegation], order: ResultOrder
) -> dict[int, str]:
    """Run them and return their results, by their places in `order`.

    A delegation whose worker waits for a person has none. Cancelling cancels tools and workers.
    Raises StepRefused once everything else has come to its end, of several that of the first call.
    """
    if not begun:
        return {}
    starts = [one for one in begun.values() if isinstance(one, Start)]
    offices = {
        index: await begin(ctx, one) for index, one in begun.items() if isinstance(one, Delegation)
    }
    for start in starts:
        _state_start(ctx, start)
    await ctx.flush()
    for start in starts:
        await ctx.send(stream.ToolStarted(start.call.call_id, start.call.tool))
    ctx.executed_calls += len(starts)
    running = _Running(ctx, order, offices, tainted=ctx.tainted)
    results = await _together(running, begun)
    await running.end()
    return {index: text for index, text in results.items() if text is not None}


async def _together(
    running: _Running, begun: Mapping[int, Start | Delegation]
) -> dict[int, str | None]:
    if len(begun) == 1:
        [(index, only)] = begun.items()
        return {index: await running.run(index, only)}
    room = asyncio.Semaphore(BATCH_CONCURRENCY)

    async def run(index: int, one: Start | Delegation) -> str | None:
        async with room:
            return await running.run(index, one)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = {index: group.create_task(run(index, one)) for index, one in begun.items()}
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

    def __init__(
        self, ctx: TurnCtx, order: ResultOrder, offices: Mapping[int, Office], *, tainted: bool
    ) -> None:
        self._ctx = ctx
        self._order = order
        self._offices = offices
        self._tainted = tainted
        self._worked: dict[int, Answered | Asked] = {}
        self._refused: dict[int, StepRefused] = {}

    async def run(self, index: int, begun: Start | Delegation) -> str | None:
        """The result; None for a worker that waits, for a person or for another process."""
        began_ms = self._ctx.clock.now_ms()
        match begun:
            case Start():
                outcome = await _invoke(self._ctx, begun, tainted=self._tainted)
                return await self._told(index, begun, outcome, began_ms=began_ms)
            case Delegation():
                return await self._work(index, begun, began_ms)
            case _:
                assert_never(begun)

    async def end(self) -> None:
        """Give the turn what workers have come to, in source order. Raises StepRefused."""
        ctx = self._ctx
        for _, worked in sorted(self._worked.items()):
            match worked:
                case Answered(record=record):
                    ctx.delegate_records.append(record)
                case Asked(paused=paused, approvals=approvals):
                    ctx.paused_workers.append(paused)
                    ctx.pending_approvals.extend(approvals)
                case _:
                    assert_never(worked)
        if self._refused:
            await ctx.flush()
            # Whichever came first: of several stops that of the first call counts (A208).
            raise self._refused[min(self._refused)]

    async def _work(self, index: int, delegation: Delegation, began_ms: int) -> str | None:
        try:
            worked = await work(self._ctx, delegation, self._offices[index])
        except StepRefused as refused:
            # What runs beside it comes to its end first: an effect cut off has an unknown outcome.
            self._refused[index] = refused
            await self._put(index)
            return None
        self._worked[index] = worked
        if isinstance(worked, Asked):
            await self._put(index)
            return None
        completed = self._ctx.fact(worked.completed())
        return await self._told(
            index, delegation, worked.outcome, began_ms=began_ms, before=(completed,)
        )

    async def _told(
        self,
        index: int,
        begun: Start | Delegation,
        outcome: ToolOutcome,
        *,
        began_ms: int,
        before: tuple[Fact, ...] = (),
    ) -> str:
        text, fact = await told(self._ctx, begun, outcome, began_ms=began_ms)
        await self._put(index, *before, fact)
        return text

    async def _put(self, index: int, *facts: Fact) -> None:
        ready = self._order.put(index, *facts)
        if self._order.is_complete:
            self._ctx.facts.extend(ready)
        elif ready:
            await self._ctx.journal.record(*ready)


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
