"""What a worker is made of, and who must agree to what it does (turn.md 6.6, 7.1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from app.log.payload import WorkerRef
from app.policy.capability import Capability
from app.policy.grants import GrantPolicy
from app.service.agents.delegates import approval_ttl_s, descriptors, programs, required
from tests.service.turns import bound
from tests.support.turn.tools import MemoryTool

if TYPE_CHECKING:
    from app.service.agents.binding import Bound

WORKER = WorkerRef(call_id="call_1_1_0", agent="w")


def staffed(boss: dict[str, Any], worker: dict[str, Any]) -> Bound:
    """An agent that these members describe, with a worker `w` that those do."""
    delegates = [{"agent": "w", "share_in": ["reports"]}]
    return replace(
        bound(MemoryTool("look"), delegates=delegates, **boss),
        delegates={"w": bound(MemoryTool("post"), **worker)},
    )


def test_a_worker_is_its_own_document_s_whatever_its_parent_s_says() -> None:
    own = {"max_steps": 3, "native_search": True, "escalate_sandbox_denials": True}
    for boss, worker in (({}, own), (own, {})):
        (made,) = descriptors(staffed(boss, worker))
        given = (made.max_steps, made.native_search_allowed, made.escalate_sandbox_denials)
        assert given == ((3, True, True) if worker else (None, False, False))


def test_a_descriptor_is_usable_as_it_stands() -> None:
    policy = GrantPolicy(frozenset({Capability.LOCAL_READ}))
    parts = staffed({}, {"instructions": "Be brief."})
    worker = parts.delegates["w"]
    agent = replace(
        worker.agent,
        name="w",
        instructions="Be brief.",
        model="script",
        grant_policy=policy,
        execution_ceiling=frozenset({Capability.LOCAL_READ, Capability.LOCAL_WRITE}),
    )
    parts = replace(parts, delegates={"w": replace(worker, agent=agent)})
    (made,) = descriptors(parts)
    assert (made.agent_id, made.instructions, made.model) == ("w", "Be brief.", "script")
    assert (made.provider_name, made.provider) == ("script", worker.provider)
    assert [spec.name for spec in made.tool_specs] == ["post"]
    assert (made.share_in, made.tools) == (("reports",), worker.executor)
    assert made.grant_policy == policy
    assert made.execution_ceiling == {Capability.LOCAL_READ, Capability.LOCAL_WRITE}


def test_a_delegate_that_the_snapshot_does_not_hold_is_no_worker() -> None:
    assert descriptors(replace(staffed({}, {}), delegates={})) == ()


@dataclass(frozen=True)
class Case:
    id: str
    boss: dict[str, Any] = field(default_factory=dict)
    worker: dict[str, Any] = field(default_factory=dict)
    holds: dict[str, Any] = field(default_factory=dict)


PASSKEY = {"assurance": {"default": "passkey"}}
FOR_POST = {"assurance": {"tools": {"post": "passkey"}}}
CHANNEL = {"assurance": {"default": "channel"}}


@pytest.mark.parametrize(
    "case",
    [
        Case("the parent's assurance is stronger", PASSKEY, {}, {"assurance": "passkey"}),
        Case("the worker's assurance is stronger", CHANNEL, PASSKEY, {"assurance": "passkey"}),
        Case("the parent's rule of the tool", FOR_POST, CHANNEL, {"assurance": "passkey"}),
        Case("both are weak", CHANNEL, CHANNEL, {"assurance": "channel"}),
        Case(
            "the parent's count is larger",
            {"approvers": {"count": 3}},
            {"approvers": {"count": 2}},
            {"count": 3},
        ),
        Case("the worker's count is larger", {}, {"approvers": {"count": 2}}, {"count": 2}),
        Case(
            "the parent's principal may not",
            {"approvers": {"allow_self": False}},
            {},
            {"allow_self": False},
        ),
        Case(
            "the worker's principal may not",
            {},
            {"approvers": {"allow_self": False}},
            {"allow_self": False},
        ),
        Case(
            "roles of both",
            {"approvers": {"roles": ["boss"]}},
            {"approvers": {"roles": ["legal"]}},
            {"roles": ("legal",), "also_roles": ("boss",)},
        ),
        Case(
            "one list of roles",
            {"approvers": {"roles": ["a", "b"]}},
            {"approvers": {"roles": ["b", "a"]}},
            {"roles": ("b", "a"), "also_roles": None},
        ),
    ],
    ids=lambda case: case.id,
)
def test_whoever_decides_satisfies_both_agents(case: Case) -> None:
    asked = required("post", staffed(case.boss, case.worker), WORKER)
    assert {name: getattr(asked, name) for name in case.holds} == case.holds


def test_the_run_s_own_call_is_its_own_agent_s_matter() -> None:
    parts = staffed({}, {"approvers": {"count": 2, "roles": ["legal"]}} | PASSKEY)
    asked = required("post", parts, None)
    assert (asked.count, asked.assurance, asked.roles) == (1, "key", ("approver",))
    assert asked.also_roles is None


@pytest.mark.parametrize(
    ("boss", "worker", "both"),
    [(["a", "b"], ["b", "c"], ["b"]), ([], ["b"], []), (["a"], [], [])],
)
def test_a_program_decides_where_both_agents_name_it(
    boss: list[str], worker: list[str], both: list[str]
) -> None:
    parts = staffed({"approvers": {"programs": boss}}, {"approvers": {"programs": worker}})
    assert programs(parts, WORKER) == both
    assert programs(parts, None) == boss


@pytest.mark.parametrize(
    ("boss", "worker", "ttl"), [(60, 90, 60), (90, 60, 60), (0, 90, 90), (0, 0, 0)]
)
def test_the_shorter_time_counts_and_zero_is_none(boss: int, worker: int, ttl: int) -> None:
    parts = staffed({"approval_ttl_s": boss}, {"approval_ttl_s": worker})
    assert (approval_ttl_s(parts, WORKER), approval_ttl_s(parts, None)) == (ttl, boss)
