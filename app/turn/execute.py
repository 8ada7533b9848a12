"""Running what may run: calls and delegations together, each start in the log first (turn.md 3.5).

A result passes through redaction, then the size cap, then into the transcript. Results go into the
log in source order, whatever the order of completion: each as soon as those before it are there,
and the last ones together with what follows them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from app.log.calls import GrantReplayed, ToolCompleted, ToolFailed, ToolStarted
from app.policy.taint import Trust, highest
from app.turn import stream, texts
from app.turn.attempt import Raised, attempt
from app.turn.limits import BATCH_CONCURRENCY, RESULT_CAP_BYTES
from app.turn.mutations import redacted
from app.turn.ports import StepRefused, ToolInvocation, ToolOutcome
from app.turn.verdict import Delegation, Start
from app.turn.worker import Answered, Asked, begin, work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.turn.context import TurnCtx
    from app.turn.ports import Fact
    from app.turn.worker import Office


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


async def execute(
    ctx: TurnCtx, begun: Mapping[int, Start | Delegation], order: ResultOrder
) -> dict[int, str]:
    """Run them and return their results, by their places in `order`.

    A delegation whose worker waits for a person has none. Cancelling cancels tools and workers.
    Raises StepRefused once everything else has come to its end.
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
        self._refused: StepRefused | None = None

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
        if self._refused is not None:
            await ctx.flush()
            raise self._refused

    async def _work(self, index: int, delegation: Delegation, began_ms: int) -> str | None:
        try:
            worked = await work(self._ctx, delegation, self._offices[index])
        except StepRefused as refused:
            # What runs beside it comes to its end first: an effect cut off has an unknown outcome.
            self._refused = refused
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
        ctx = self._ctx
        outcome = await redacted(ctx, begun, outcome)
        duration_ms = max(0, ctx.clock.now_ms() - began_ms)
        trust = _tag(ctx, begun, outcome)
        shown = await _shown(ctx, begun, outcome, trust=trust)
        ctx.tainted = ctx.tainted or trust.taints
        fact = _result_fact(ctx, begun, outcome, shown=shown, duration_ms=duration_ms, trust=trust)
        await self._put(index, *before, fact)
        return shown.text

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
