"""No silent loss (turn.md 4.5): a decision that met no call is reported, with the reason.

Observation only: such a decision resolves nothing. Log lines carry ids and digests, no arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from app.engine.json.arguments import Arguments, sha256_hex
from app.engine.messages import AssistantMessage
from app.engine.turn_content import tool_calls
from app.turn.gate.verdict import Ask, AskQuestions, Settle, Start
from app.turn.state.call import read_arguments
from app.turn.texts import ASK_QUESTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.engine.messages import ToolCall
    from app.turn.gate.verdict import Verdict
    from app.turn.options import ApprovalDecision, Identity, VerifiedAnswer
    from app.turn.state.context import TurnCtx

_log = structlog.get_logger(__name__)

# Harmless: the call has its result. A loss: something before the engine lost the call.
ANSWERED_EARLIER = "answered_earlier"
FOUND_NOWHERE = "found_nowhere"


def report_prepass(ctx: TurnCtx, verdicts: Sequence[Verdict], *, forwarded: int) -> None:
    """One summary, and one warning per answer, or decision with a turn, that met no call."""
    for answer in ctx.answers.unmet():
        _log.warning(
            "answer.unmatched",
            turn_id=ctx.turn_id,
            call_id=answer.call_id,
            index=answer.index,
            why=ANSWERED_EARLIER if _was_asked(ctx, answer) else FOUND_NOWHERE,
            args_sha256=answer.args_sha256,
        )
    for idle in ctx.ledger.idle_overrides:
        _log.warning("override.without_approval", turn_id=ctx.turn_id, **_ids(idle.identity))
    if not forwarded:
        return
    unmatched = [decision for decision in ctx.ledger if decision.turn_id is not None]
    _log.info(
        "turn.decisions",
        turn_id=ctx.turn_id,
        executed=sum(isinstance(one, Start) and one.is_ordered for one in verdicts),
        denied=sum(isinstance(one, Settle) and one.outcome in _DENIALS for one in verdicts),
        pending=sum(isinstance(one, Ask | AskQuestions) for one in verdicts),
        unmatched=len(unmatched),
    )
    for decision in unmatched:
        _warn(ctx, decision)


def report_unused(ctx: TurnCtx) -> None:
    """At the turn's end: the decisions that any call of the turn could have used, and none did."""
    for decision in ctx.ledger:
        if decision.turn_id is None:
            _warn(ctx, decision)


_DENIALS = frozenset({"denied", "expired"})


def _warn(ctx: TurnCtx, decision: ApprovalDecision) -> None:
    _log.warning(
        "decision.unmatched",
        turn_id=ctx.turn_id,
        approval_id=decision.approval_id,
        why=ANSWERED_EARLIER if _stands(ctx, decision.identity) else FOUND_NOWHERE,
        **_ids(decision.identity),
    )


def _stands(ctx: TurnCtx, identity: Identity) -> bool:
    """Whether the call is in the transcript at all; what is open has been looked at already."""
    return any(
        call.id == identity.request_id
        and call.name == identity.tool_name
        and _canonical(call) == identity.args_json
        for call in _calls(ctx)
    )


def _was_asked(ctx: TurnCtx, answer: VerifiedAnswer) -> bool:
    """Whether the transcript holds a call with these very questions."""
    found = (read_arguments(call) for call in _calls(ctx) if call.name == ASK_QUESTION)
    return any(isinstance(one, Arguments) and one.sha256 == answer.args_sha256 for one in found)


def _calls(ctx: TurnCtx) -> Iterator[ToolCall]:
    for message in ctx.run.full_history():
        if isinstance(message, AssistantMessage):
            yield from (call for _, call in tool_calls(message.content))


def _canonical(call: ToolCall) -> str | None:
    args = read_arguments(call)
    return args.canonical.decode() if isinstance(args, Arguments) else None


def _ids(identity: Identity) -> dict[str, str]:
    return {
        "request_id": identity.request_id,
        "tool": identity.tool_name,
        "args_sha256": sha256_hex(identity.args_json.encode(errors="surrogatepass")),
    }
