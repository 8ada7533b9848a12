"""Which calls a remembered grant serves, and until when (turn.md 6.8, service.md 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from app.log.calls import GrantReplayed, ToolStarted
from app.policy.constraints import Constraint
from app.policy.grants import RememberedGrant, SessionApproval
from app.turn.ports import DispatchModify, ToolInvocation, ToolOutcome
from app.turn.result import EndedBy
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, POST, READ, WRITE, MemoryTool
from tests.support.turn.world import World

HOME = Constraint("/url", "url_prefix", "https://ours.example/in")
OURS = {"url": "https://ours.example/in/7"}
THEIRS = {"url": "https://ours.example.evil.test/in/7"}


@dataclass
class Register:
    """A register in which the grants `ended` no longer live."""

    ended: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    async def is_live(self, grant_ref: str) -> bool:
        self.asked.append(grant_ref)
        return grant_ref not in self.ended


class Recorder:
    """Records every mutation."""

    async def record(self, mutation: object) -> bool:
        return True


def a_grant(
    name: str = "grant_1",
    *constraints: Constraint,
    covered: Any = POST,
    until: int | None = None,
) -> RememberedGrant:
    return RememberedGrant(covered, name, f"hash of {name}", constraints, until)


def calls(*args: dict[str, Any]) -> World:
    return World(
        [
            *[reply(called(f"c{n}", "post", one)) for n, one in enumerate(args)],
            reply(said("ok")),
        ],
        MemoryTool("post", POST),
    )


async def tainted(world: World, *grants: RememberedGrant, **options: Any) -> Any:
    return await world.turn(
        remembered_grants={"post": grants}, untrusted_context_seed=True, **options
    )


def used(world: World) -> list[str]:
    return [one.grant_ref for one in world.journal.of(GrantReplayed)]


async def test_a_call_that_meets_its_constraints_runs_and_any_other_asks() -> None:
    world = calls(OURS, THEIRS)
    result = await tainted(world, a_grant("grant_1", HOME))
    assert [one.args_json for one in result.pending_approvals] == [
        '{"url":"https://ours.example.evil.test/in/7"}'
    ]
    assert (used(world), len(world.tools.ran)) == (["grant_1"], 1)


async def test_each_call_is_served_by_the_one_grant_that_reaches_it() -> None:
    world = calls(OURS, {"url": "https://else.example/"})
    elsewhere = Constraint("/url", "equals", "https://else.example/")
    result = await tainted(world, a_grant("home", HOME), a_grant("else", elsewhere))
    assert (result.text, used(world)) == ("ok", ["home", "else"])


async def test_what_several_grants_cover_is_not_joined() -> None:
    world = calls(OURS)
    result = await tainted(
        world, a_grant("egress", covered=EGRESS), a_grant("mutate", covered=POST - EGRESS)
    )
    assert len(result.pending_approvals) == 1
    assert world.tools.ran == []


async def test_the_grant_that_covers_the_call_is_taken_though_a_narrower_one_stands_first() -> None:
    world = calls(OURS)
    await tainted(world, a_grant("egress", covered=EGRESS), a_grant("both"))
    assert used(world) == ["both"]


async def test_t104_a_grant_whose_time_passes_during_the_turn_serves_no_more() -> None:
    world = calls(OURS, OURS)
    ends = world.clock.ms + 5_000

    async def slowly(call: ToolInvocation) -> ToolOutcome:
        world.clock.ms = ends
        return ToolOutcome(text="{}")

    world.tools.by_name["post"].body = slowly
    result = await tainted(world, a_grant(until=ends))
    assert (len(result.pending_approvals), used(world)) == (1, ["grant_1"])


async def test_t104_a_grant_taken_back_during_the_turn_serves_no_more() -> None:
    world, register = calls(OURS, OURS), Register()

    async def meanwhile(call: ToolInvocation) -> ToolOutcome:
        register.ended.add("grant_1")
        return ToolOutcome(text="{}")

    world.tools.by_name["post"].body = meanwhile
    result = await tainted(world, a_grant(), grant_register=register)
    assert [one.missing for one in result.pending_approvals] == [POST]
    assert (used(world), register.asked) == (["grant_1"], ["grant_1", "grant_1"])


async def test_another_grant_takes_the_place_of_one_that_was_taken_back() -> None:
    world, register = calls(OURS), Register(ended={"grant_1"})
    result = await tainted(world, a_grant(), a_grant("grant_2"), grant_register=register)
    assert (result.text, used(world)) == ("ok", ["grant_2"])
    assert register.asked == ["grant_1", "grant_2"]


async def test_unattended_a_grant_taken_back_leaves_a_refusal() -> None:
    world, register = calls(OURS), Register(ended={"grant_1"})
    result = await tainted(world, a_grant(), grant_register=register, unattended=True)
    assert (result.text, len(result.unattended_denials), world.tools.ran) == ("ok", 1, [])


async def test_siblings_of_a_call_that_lost_its_grant_wait_with_it() -> None:
    """I14: nothing with an effect runs while a person decides."""
    world = World(
        [
            reply(
                called("c1", "post", OURS),
                called("c2", "write", {}, position=1),
                called("c3", "read", {}, position=2),
            )
        ],
        MemoryTool("post", POST),
        MemoryTool("write", WRITE),
        MemoryTool("read", READ),
    )
    result = await tainted(world, a_grant(), grant_register=Register(ended={"grant_1"}))
    assert (result.ended_by, world.tools.ran) == (EndedBy.PAUSE, ["read"])


async def test_a_grant_taken_back_shortens_no_card() -> None:
    """I24: what it covered is missing again, though the call would have asked with it too."""
    world, register = calls(OURS), Register(ended={"egress"})
    result = await tainted(world, a_grant("egress", covered=EGRESS), grant_register=register)
    assert [one.missing for one in result.pending_approvals] == [POST]
    assert register.asked == ["egress"]


@pytest.mark.parametrize(("ended", "runs"), [(set(), True), ({"grant_1"}, False)])
async def test_a_session_approval_adds_nothing_to_a_grant_that_was_taken_back(
    ended: set[str], runs: bool
) -> None:
    """A session's consent for the ordinary rule alone serves only what nothing is missing for."""
    world = calls(OURS)
    world.tools.by_name["post"] = MemoryTool("post", POST, asks=True, cacheable=True)
    session = {"post": SessionApproval(frozenset(), "appr_0")}
    await tainted(world, a_grant(), grant_register=Register(ended), session_approved_tools=session)
    assert world.tools.ran == (["post"] if runs else [])


@pytest.mark.parametrize(("ended", "served"), [(set(), ["grant_1"]), ({"grant_1"}, [])])
async def test_a_session_approval_answers_no_request_by_a_grant_that_was_taken_back(
    ended: set[str], served: list[str]
) -> None:
    """What the taint took is missing again, though the request is open; a use leaves a trace."""
    world = calls(OURS)
    world.tools.by_name["post"] = MemoryTool("post", POST, cacheable=True)
    first = await world.turn(untrusted_context_seed=True)
    session = {"post": SessionApproval(frozenset(), "appr_0")}
    second = await tainted(
        world, a_grant(), grant_register=Register(ended), session_approved_tools=session
    )
    assert (len(first.pending_approvals), used(world)) == (1, served)
    assert (len(second.pending_approvals), len(world.tools.ran)) == (1 - len(served), len(served))


async def test_nobody_is_asked_about_grants_that_change_no_verdict() -> None:
    world, register = calls(OURS), Register()
    await world.turn(remembered_grants={"post": (a_grant(),)}, grant_register=register)
    assert (world.tools.ran, register.asked, used(world)) == (["post"], [], [])


@pytest.mark.parametrize(("rewritten", "runs"), [(OURS, True), (THEIRS, False)])
async def test_constraints_are_held_against_what_is_to_run(
    rewritten: dict[str, Any], runs: bool
) -> None:
    world = calls(THEIRS if runs else OURS)
    world.tools.by_name["post"].decision = DispatchModify(rewritten, "rule")
    await tainted(world, a_grant("grant_1", HOME), dispatch_recorder=Recorder())
    assert [call.args for call in world.tools.calls] == ([rewritten] if runs else [])
    assert len(world.journal.of(ToolStarted)) == int(runs)
