"""Dispatch mutations: recorded first, applied only then (turn.md 7.7).

Without a recorder nothing here happens. Where recording fails, a call that policy would rewrite is
refused and a result it would redact is withheld: the model sees neither version.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from app.engine.json.arguments import Arguments, parse_arguments, sha256_hex
from app.turn import texts
from app.turn.attempt import Raised, attempt
from app.turn.gate.decided import schema_problems
from app.turn.gate.verdict import Delegation, Settle, Start
from app.turn.ports import (
    DispatchInjectContext,
    DispatchModify,
    DispatchMutation,
    DispatchRedact,
    ToolOutcome,
)

if TYPE_CHECKING:
    from app.turn.ports import DispatchRecorder, MutationKind
    from app.turn.state.context import TurnCtx

_WITHHELD: Final = ToolOutcome(text=texts.result_withheld(), code="result_withheld")


async def mutated(ctx: TurnCtx, start: Start) -> Start | Settle:
    """The call as policy has it run, once that is recorded."""
    recorder = ctx.options.dispatch_recorder
    if start.mutation is None or recorder is None:
        return start
    match start.mutation:
        case DispatchModify(args=rewritten, rule=rule):
            args = parse_arguments(json.dumps(dict(rewritten)))
            if not isinstance(args, Arguments) or schema_problems(ctx, start.call, args):
                return _refused(start)
            applied = replace(start, args=args, mutation=None)
            new = args.canonical.decode()
            mutation = _mutation(ctx, start, "input_rewrite", rule=rule, mutated=new)
        case DispatchInjectContext(text=text, rule=rule):
            applied = replace(start, note=text, mutation=None)
            mutation = _mutation(ctx, start, "context_injection", rule=rule, mutated=text)
        case _:
            assert_never(start.mutation)
    if start.call.logged is not None and mutation in start.call.logged.mutations:
        # A worker process recorded it, and was lost before the start.
        return applied
    # The reply that holds the call stands in the log before what changed the call.
    await ctx.flush()
    return applied if await _is_recorded(recorder, mutation) else _refused(start)


async def redacted(ctx: TurnCtx, start: Start | Delegation, outcome: ToolOutcome) -> ToolOutcome:
    """The result as policy lets it be seen, once that is recorded."""
    recorder = ctx.options.dispatch_recorder
    if recorder is None:
        return outcome
    seen = ctx.tools.post_dispatch(start.call.tool, start.args.value, outcome.text)
    match await attempt(seen, doing="post_dispatch", call_id=start.call.call_id):
        case None:
            return outcome
        case Raised():
            return replace(_WITHHELD, trust=outcome.trust)
        case DispatchRedact() as redaction:
            return await _redacted_to(ctx, recorder, start, outcome, redaction=redaction)


async def _redacted_to(
    ctx: TurnCtx,
    recorder: DispatchRecorder,
    start: Start | Delegation,
    outcome: ToolOutcome,
    *,
    redaction: DispatchRedact,
) -> ToolOutcome:
    mutation = replace(
        _mutation(ctx, start, "result_redaction", rule=redaction.rule, mutated=redaction.text),
        original_sha256=sha256_hex(outcome.text.encode()),
    )
    if await _is_recorded(recorder, mutation):
        return replace(outcome, text=redaction.text)
    return replace(_WITHHELD, trust=outcome.trust)


def _mutation(
    ctx: TurnCtx, start: Start | Delegation, kind: MutationKind, *, rule: str, mutated: str
) -> DispatchMutation:
    return DispatchMutation(
        kind=kind,
        call_id=start.call.call_id,
        tool=start.call.tool,
        rule=rule,
        step=ctx.run.turn(),
        original_sha256=start.args.sha256,
        mutated=mutated,
    )


async def _is_recorded(recorder: DispatchRecorder, mutation: DispatchMutation) -> bool:
    recorded = recorder.record(mutation)
    return await attempt(recorded, doing="record mutation", call_id=mutation.call_id) is True


def _refused(start: Start) -> Settle:
    result = texts.mutation_unrecorded()
    return Settle(call=start.call, result=result, outcome="denied_by_policy", facts=start.facts)
