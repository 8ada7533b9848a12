"""From a turn's pending call to the approval that people see (service.md 5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import orjson

from app.engine.json.arguments import sha256_hex
from app.log.approvals import ApprovalRequested, ApprovalResolved, Risk
from app.log.envelope import NewEvent, wire_time
from app.log.private import encode_programs
from app.policy.capability import NEVER_GRANTED, in_order
from app.service.agents import delegates
from app.service.grants.offers import offer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from app.log.records import ApprovalRecord, RunRecord
    from app.service.agents.binding import Bound
    from app.service.clock import Clock
    from app.turn.result import PendingApproval

TAINTED_BY: Final = 20


@dataclass(frozen=True, slots=True)
class Background:
    """What cards tell beside their calls: the newest events that taint, and what it leads to.

    `approved` are the newest approvals of the conversation that let a call run.
    """

    tainted_by: Sequence[int] = ()
    approved: Sequence[ApprovalRecord] = ()


def requests(
    pending: Sequence[PendingApproval],
    *,
    run: RunRecord,
    turn_id: str,
    bound: Bound,
    background: Background,
    clock: Clock,
) -> list[NewEvent]:
    """An `approval.requested` for each pending call that has no open request yet.

    A call that is asked again because its decision no longer covers it supersedes that approval.
    """
    now = clock.now()
    events: list[NewEvent] = []
    for call in pending:
        asked = _Request(run, turn_id, bound, background, now).of(call, clock.mint("appr"))
        if call.supersedes is not None:
            replaced = ApprovalResolved(
                approval_id=call.supersedes,
                call_id=call.call_id,
                status="superseded",
                by="superseded",
                superseded_by=asked.id,
            )
            events.append(NewEvent(replaced, run_id=run.id, turn_id=turn_id))
        programs = encode_programs(delegates.programs(bound, call.worker))
        events.append(NewEvent(asked, run_id=run.id, turn_id=turn_id, private=programs))
    return events


@dataclass(frozen=True, slots=True)
class _Request:
    """What all requests of one pause have in common."""

    run: RunRecord
    turn_id: str
    bound: Bound
    background: Background
    now: datetime

    def of(self, call: PendingApproval, approval_id: str) -> ApprovalRequested:
        args = orjson.loads(call.args_json)
        ttl = delegates.approval_ttl_s(self.bound, call.worker)
        return ApprovalRequested(
            id=approval_id,
            status="pending",
            run_id=self.run.id,
            conversation_id=self.run.conversation_id,
            turn_id=call.occurrence_turn_id or self.turn_id,
            request_id=call.request_id,
            call_id=call.call_id,
            agent=self.run.agent,
            tool=call.tool_name,
            title=call.title,
            tool_definition_digest=call.definition_digest,
            args=args,
            args_canonical=call.args_json,
            args_sha256=sha256_hex(call.args_json.encode()),
            reason=call.reason,
            required_capabilities=in_order(call.required),
            missing_capabilities=in_order(call.missing),
            tainted_by=tuple(self.background.tainted_by),
            risk=_risk(call, args, self.bound),
            worker=call.worker,
            requested_at=wire_time(self.now),
            expires_at=wire_time(self.now + timedelta(seconds=ttl)) if ttl else None,
            required=delegates.required(call.tool_name, self.bound, call.worker),
            grant_offer=offer(
                call,
                self.background.approved,
                run=self.run,
                base=self.bound.agent.grant_policy.base,
            ),
        )


def _risk(call: PendingApproval, args: dict[str, object], bound: Bound) -> Risk:
    url, executor = args.get("url"), delegates.asker(bound, call.worker).executor
    # No standing consent serves a worker, so nobody is offered to give one on its card.
    lasting = call.worker is None and executor.cacheable_approval(call.tool_name)
    return Risk(
        destination=_host(url) if isinstance(url, str) else None,
        idempotent=executor.is_idempotent(call.tool_name),
        session_allowed=lasting and not call.missing & NEVER_GRANTED,
        outcome_unknown=call.outcome_unknown,
        sandbox_escalation=call.sandbox_escalation,
    )


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
