"""The approval that people see, from what a turn says of a call (service.md 5)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from app.log.approvals import ApprovalRequested, ApprovalResolved, Risk
from app.log.payload import WorkerRef
from app.log.private import decode_programs
from app.policy.capability import Capability
from app.service.approvals.asking import Background, requests
from tests.service.turns import ORDER, bound, pending
from tests.support.log.records import run_record
from tests.support.stepped_clock import SteppedClock
from tests.support.turn.tools import MemoryTool

if TYPE_CHECKING:
    from app.log.envelope import NewEvent
    from app.service.agents.binding import Bound
    from app.turn.result import PendingApproval

POST = MemoryTool("http_post")


def asked(
    *calls: PendingApproval, by: Bound | None = None, tainted_by: tuple[int, ...] = ()
) -> list[NewEvent]:
    return requests(
        calls,
        run=run_record(),
        turn_id="turn_7",
        bound=by or bound(POST),
        background=Background(tainted_by),
        clock=SteppedClock(),
    )


def card(call: PendingApproval, by: Bound | None = None, **more: Any) -> ApprovalRequested:
    (event,) = asked(call, by=by, **more)
    assert isinstance(event.payload, ApprovalRequested)
    return event.payload


def test_the_card_of_an_ordinary_gate() -> None:
    """F6: what is shown, and signed, is the canonical text."""
    shown = card(pending())
    assert shown.wire() == {
        "id": shown.id,
        "status": "pending",
        "superseded_by": None,
        "run_id": "run_1",
        "conversation_id": "conv_1",
        "turn_id": "turn_7",
        "request_id": "call_0_0",
        "call_id": "call_1_1_0",
        "agent": "courier",
        "tool": "http_post",
        "title": "Post to a web address",
        "tool_definition_digest": "d" * 64,
        "args": {"body": "{}", "url": "http://shop.example:8080/orders"},
        "args_canonical": ORDER,
        "args_sha256": hashlib.sha256(ORDER.encode()).hexdigest(),
        "reason": "",
        "required_capabilities": [],
        "missing_capabilities": [],
        "tainted_by": [],
        "risk": {
            "destination": "shop.example",
            "idempotent": False,
            "session_allowed": False,
            "outcome_unknown": False,
            "sandbox_escalation": False,
        },
        "worker": None,
        "requested_at": "2026-11-29T12:00:00.000Z",
        "expires_at": "2026-11-30T12:00:00.000Z",
        "resolved_at": None,
        "resolved_by": None,
        "required": {"count": 1, "assurance": "key", "roles": ["approver"], "allow_self": True},
        "effective_args": None,
        "effective_args_sha256": None,
    }
    assert shown.id.startswith("appr_")


def test_the_request_belongs_to_the_turn_that_asks() -> None:
    (event,) = asked(pending())
    assert (event.run_id, event.turn_id) == ("run_1", "turn_7")


def test_a_call_that_is_asked_again_keeps_the_turn_that_emitted_it() -> None:
    assert card(pending(occurrence_turn_id="turn_1")).turn_id == "turn_1"


def test_an_agent_s_approvers_are_on_the_card() -> None:
    agent = bound(
        POST,
        approvers={"roles": ["boss"], "programs": ["bot"], "allow_self": False, "count": 2},
        assurance={"default": "channel", "tools": {"http_post": "passkey"}},
    )
    shown = card(pending(), agent)
    assert shown.required.model_dump() == {
        "count": 2,
        "assurance": "passkey",
        "roles": ("boss",),
        "allow_self": False,
    }
    (event,) = asked(pending(), by=agent)
    assert event.private == b'{"programs":["bot"]}'


def test_another_tool_takes_the_default_assurance() -> None:
    agent = bound(MemoryTool("other"), assurance={"default": "channel", "tools": {"x": "passkey"}})
    assert card(pending(tool_name="other"), agent).required.assurance == "channel"


def test_a_time_to_live_of_zero_never_expires() -> None:
    assert card(pending(), bound(POST, approval_ttl_s=0)).expires_at is None


def test_capabilities_stand_in_declared_order() -> None:
    both = frozenset({Capability.MUTATE_EXTERNAL, Capability.ARBITRARY_EGRESS})
    shown = card(pending(required=both, missing=both, reason="tainted"), tainted_by=(9, 4))
    assert shown.required_capabilities == ("arbitrary-egress", "mutate-external")
    assert shown.missing_capabilities == ("arbitrary-egress", "mutate-external")
    assert (shown.reason, shown.tainted_by) == ("tainted", (9, 4))


@dataclass(frozen=True)
class RiskCase:
    name: str
    tool: MemoryTool
    call: dict[str, Any]
    risk: Risk


def risk(**changes: Any) -> Risk:
    plain: dict[str, Any] = {
        "destination": None,
        "idempotent": False,
        "session_allowed": False,
        "outcome_unknown": False,
        "sandbox_escalation": False,
    }
    return Risk(**(plain | changes))


LASTING = MemoryTool("http_post", idempotent=True, cacheable=True)
RISKS = [
    RiskCase("no_url", POST, {"args_json": "{}"}, risk()),
    RiskCase("a_url_that_is_no_text", POST, {"args_json": '{"url":7}'}, risk()),
    RiskCase("a_url_that_is_none", POST, {"args_json": '{"url":"http://[::1"}'}, risk()),
    RiskCase("a_url_without_a_host", POST, {"args_json": '{"url":"mailto:a"}'}, risk()),
    RiskCase(
        "idempotent",
        MemoryTool("http_post", idempotent=True),
        {"args_json": "{}"},
        risk(idempotent=True),
    ),
    RiskCase("lasting", LASTING, {"args_json": "{}"}, risk(idempotent=True, session_allowed=True)),
    RiskCase(
        "never_for_a_session",
        LASTING,
        {"args_json": "{}", "missing": frozenset({Capability.GRANT_ADMIN})},
        risk(idempotent=True),
    ),
    RiskCase(
        "unknown_outcome",
        POST,
        {"args_json": "{}", "outcome_unknown": True},
        risk(outcome_unknown=True),
    ),
    RiskCase(
        "sandbox",
        POST,
        {"args_json": "{}", "sandbox_escalation": True},
        risk(sandbox_escalation=True),
    ),
]


@pytest.mark.parametrize("case", RISKS, ids=lambda case: case.name)
def test_what_an_approver_should_look_at_first(case: RiskCase) -> None:
    assert card(pending(**case.call), bound(case.tool)).risk == case.risk


def test_a_worker_s_request_names_its_delegation() -> None:
    worker = WorkerRef(call_id="call_1_1_1", agent="researcher")
    by = replace(bound(), delegates={"researcher": bound(POST)})
    assert card(pending(worker=worker), by=by).worker == worker


@dataclass(frozen=True)
class BothCase:
    """What the run's agent says, what its worker's does, and what a card of the worker demands."""

    name: str
    parent: dict[str, Any]
    worker: dict[str, Any]
    required: dict[str, Any]


SAME = {"count": 1, "assurance": "key", "roles": ["approver"], "allow_self": True}
BOTH = [
    BothCase("the same", {}, {}, SAME),
    BothCase(
        "the larger count",
        {"approvers": {"count": 3}},
        {"approvers": {"count": 2}},
        SAME | {"count": 3},
    ),
    BothCase(
        "the stronger assurance",
        {"assurance": {"tools": {"http_post": "passkey"}}},
        {"assurance": {"default": "channel"}},
        SAME | {"assurance": "passkey"},
    ),
    BothCase("self", {"approvers": {"allow_self": False}}, {}, SAME | {"allow_self": False}),
    BothCase(
        "roles of both",
        {"approvers": {"roles": ["b", "a"]}},
        {"approvers": {"roles": ["c"]}},
        SAME | {"roles": ["c"], "also_roles": ["b", "a"]},
    ),
]


@pytest.mark.parametrize("case", BOTH, ids=lambda case: case.name)
def test_a_worker_s_request_demands_what_both_agents_demand(case: BothCase) -> None:
    """turn.md 6.6."""
    worker = WorkerRef(call_id="call_1_1_1", agent="w")
    by = replace(bound(**case.parent), delegates={"w": bound(POST, **case.worker)})
    assert card(pending(worker=worker), by=by).wire()["required"] == case.required


@pytest.mark.parametrize(
    ("parent", "own", "waits"), [(60, 0, 60), (0, 60, 60), (60, 30, 30), (0, 0, None)]
)
def test_a_worker_s_request_waits_no_longer_than_either_agent_lets_it(
    parent: int, own: int, waits: int | None
) -> None:
    worker = WorkerRef(call_id="call_1_1_1", agent="w")
    by = replace(bound(approval_ttl_s=parent), delegates={"w": bound(POST, approval_ttl_s=own)})
    shown = card(pending(worker=worker), by=by)
    asked_at = datetime.fromisoformat(shown.requested_at)
    over = None if shown.expires_at is None else datetime.fromisoformat(shown.expires_at)
    assert (over and (over - asked_at).total_seconds()) == waits


def test_a_program_decides_for_a_worker_where_both_agents_name_it() -> None:
    worker = WorkerRef(call_id="call_1_1_1", agent="w")
    both = {"approvers": {"programs": ["bot", "other"]}}
    by = replace(bound(approvers={"programs": ["bot"]}), delegates={"w": bound(POST, **both)})
    (event,) = asked(pending(worker=worker), by=by)
    assert decode_programs(event.private) == ("bot",)


def test_f14_two_equal_calls_are_two_requests() -> None:
    one, other = asked(pending("call_1_1_0"), pending("call_1_1_1"))
    assert isinstance(one.payload, ApprovalRequested)
    assert isinstance(other.payload, ApprovalRequested)
    assert one.payload.id != other.payload.id


def test_a_request_that_replaces_another_says_so_first() -> None:
    resolved, request = asked(pending(supersedes="appr_old"))
    assert isinstance(request.payload, ApprovalRequested)
    assert resolved.payload == ApprovalResolved(
        approval_id="appr_old",
        call_id="call_1_1_0",
        status="superseded",
        by="superseded",
        superseded_by=request.payload.id,
    )
