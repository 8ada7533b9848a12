"""The four rules of standing consents, one test each: just inside, and just outside (F120)."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from app.log.calls import CallGated, ToolStarted
from app.policy.capability import Capability, CapabilitySet
from app.policy.grants import RememberedGrant, SessionApproval
from app.turn.agent import BoundAgent
from app.turn.ports import DispatchDeny
from app.turn.result import EndedBy
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, POST, READ, MemoryTool
from tests.support.turn.world import World

GRANT_ACCESS = frozenset({Capability.GRANT_ACCESS})
Kind = Literal["session", "grant"]
both = pytest.mark.parametrize("kind", ["session", "grant"])


def consent(kind: Kind, covered: CapabilitySet, tool: str = "post") -> dict[str, Any]:
    """A standing consent for a tool, as an option of a turn with untrusted content in it."""
    given: dict[str, Any] = {"untrusted_context_seed": True}
    if kind == "session":
        return given | {"session_approved_tools": {tool: SessionApproval(covered, "appr_0")}}
    return given | {"remembered_grants": {tool: (RememberedGrant(covered, "grant_1", "hash"),)}}


def one_call(**tool: Any) -> World:
    tool = {"required": EGRESS, "cacheable": True, **tool}
    return World([reply(called("c1", "post", {})), reply(said("ok"))], MemoryTool("post", **tool))


@both
async def test_f120_tool_and_covered_set_match_exactly(kind: Kind) -> None:
    """Principal and agent are matched where consents are read: `test_f118`, for sessions."""
    inside = one_call()
    await inside.turn(**consent(kind, EGRESS))
    assert inside.tools.ran == ["post"]
    for outside, given in (
        (one_call(), consent(kind, EGRESS, tool="posts")),
        (one_call(required=POST), consent(kind, EGRESS)),
    ):
        assert (await outside.turn(**given)).ended_by is EndedBy.PAUSE
        assert outside.tools.ran == []


async def test_f120_a_session_approval_is_reached_only_after_the_gate_has_asked() -> None:
    asked, unasked = one_call(), one_call(required=READ)
    for world in (asked, unasked):
        await world.turn(**consent("session", EGRESS))
    assert asked.tools.gated == unasked.tools.gated == ["post"]
    for world, outcome, kind in ((asked, "escalate", "session"), (unasked, "allow", None)):
        (gated,), (started,) = world.journal.of(CallGated), world.journal.of(ToolStarted)
        assert gated.outcome == outcome
        assert (started.covered_by and started.covered_by.kind) == kind


@both
async def test_f120_neither_overrides_a_veto_or_the_ceiling(kind: Kind) -> None:
    vetoed, beyond = one_call(decision=DispatchDeny("never")), one_call()
    beyond.agent = BoundAgent(name="tester", model="prepared", execution_ceiling=READ)
    for world, rule in ((vetoed, "veto"), (beyond, "ceiling")):
        result = await world.turn(**consent(kind, EGRESS))
        assert (result.text, world.tools.ran) == ("ok", [])
        assert [(one.outcome, one.rule) for one in world.journal.of(CallGated)] == [("deny", rule)]


@both
async def test_f120_neither_serves_a_capability_that_is_never_granted(kind: Kind) -> None:
    world = one_call(required=GRANT_ACCESS)
    result = await world.turn(**consent(kind, GRANT_ACCESS))
    assert [one.missing for one in result.pending_approvals] == [GRANT_ACCESS]
    assert world.tools.ran == []
