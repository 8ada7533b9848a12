"""Remembered grants from their signed bytes to the calls they serve (turn.md 6.8)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from typing_extensions import override

from app.policy.constraints import Constraint
from app.policy.profile import Origin
from tests.service.grants.granting import HOUR, Holder, hash_of
from tests.support.authenticator import Authenticator
from tests.support.service.house import House
from tests.support.service.house_tools import CountingTools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from app.log.records import RunRecord
    from app.tools.ports import Workspace
    from app.tools.registry import RegisteredTool
    from app.turn.ports import ToolInvocation, ToolOutcome

pytestmark = pytest.mark.postgres

# What `fetch` brings in taints the run, and `charge` has an effect outside.
JOB = 'call fetch {}\n---\ncall charge {"amount":40,"to":"ann"}\n---\nsay done'


async def ran(house: House, text: str = JOB, sub: str = "alice", **request: Any) -> RunRecord:
    person = await house.person(sub)
    return await house.drive(await person.run(text, **request))


async def covered(house: House, run: RunRecord) -> list[Any]:
    return [one["covered_by"] for one in await house.data(run, "tool.started")]


async def test_t103_a_tainted_call_runs_unasked_and_its_use_is_in_the_log(house: House) -> None:
    await house.agent()
    alice = await Holder.of(house)
    grant_id = await alice.grant()
    run = await ran(house)
    assert (run.status, house.tools.count("charge")) == ("completed", 1)
    by = {"kind": "grant", "id": grant_id}
    assert await covered(house, run) == [None, by]
    gated = (await house.data(run, "call.gated"))[-1]
    assert (gated["outcome"], gated["rule"], gated["covered_by"]) == ("allow", "none", by)
    (replayed,) = await house.data(run, "grant.replayed")
    assert replayed == {
        "call_id": "call_1_2_0",
        "tool": "charge",
        "grant_ref": grant_id,
        "coverage_hash": hash_of(alice.covered()),
        "cleared": ["mutate-external"],
    }
    types = await house.types(run)
    assert types[types.index("grant.replayed") - 1] == "tool.started"


async def test_t103_on_a_clean_context_it_leaves_no_trace(house: House) -> None:
    await house.agent()
    await (await Holder.of(house)).grant()
    run = await ran(house, "call charge {}\n---\nsay done")
    assert (run.status, await covered(house, run)) == ("completed", [None])
    assert await house.data(run, "grant.replayed") == []


@pytest.mark.parametrize("ended", ["revoked", "suspended", "expired", "passkey revoked"])
async def test_t104_one_that_has_ended_serves_nothing(house: House, ended: str) -> None:
    await house.agent()
    alice = await Holder.of(house)
    grant_id = await alice.grant()
    match ended:
        case "revoked":
            await alice.revoke(grant_id)
        case "suspended":
            await alice.suspend(grant_id)
        case "expired":
            house.clock.step(HOUR)
        case _:
            await alice.lose_passkey()
    run = await ran(house)
    assert (run.status, house.tools.count("charge")) == ("paused", 0)


@pytest.mark.parametrize("ended", ["revoked", "suspended", "expired"])
async def test_t104_one_that_ends_while_the_turn_runs_serves_no_more(
    house: House, ended: str
) -> None:
    await house.agent()
    alice = await Holder.of(house)
    grant_id = await alice.grant()

    async def ending() -> None:
        match ended:
            case "revoked":
                await alice.revoke(grant_id)
            case "suspended":
                await alice.suspend(grant_id)
            case _:
                house.clock.step(HOUR)

    slow = House(house.store, house.tenant, house.clock, Slow(ending))
    run = await ran(slow)
    assert (run.status, slow.tools.count("charge")) == ("paused", 0)
    (asked,) = await slow.pending(run)
    assert asked.card["missing_capabilities"] == ["mutate-external"]


@pytest.mark.parametrize(
    "signed",
    [
        pytest.param({"principal": "bob"}, id="another-principal"),
        pytest.param({"agent": "other"}, id="another-agent"),
        pytest.param({"tenant": "tn_other"}, id="another-tenant"),
        pytest.param({"tool_definition_digest": "0" * 64}, id="another-definition"),
        pytest.param({"tool": "fetch", "capabilities": ("arbitrary-egress",)}, id="another-tool"),
        pytest.param(
            {"capabilities": ("arbitrary-egress", "mutate-external")}, id="more-than-it-needs"
        ),
        pytest.param({"capabilities": ("arbitrary-egress",)}, id="what-it-does-not-need"),
    ],
)
async def test_t104_f120_one_for_anything_else_serves_nothing(
    house: House, signed: dict[str, Any]
) -> None:
    """Principal, agent, tool, its definition and the covered set match exactly."""
    await house.agent()
    await (await Holder.of(house)).grant(**signed)
    run = await ran(house)
    assert (run.status, house.tools.count("charge")) == ("paused", 0)


async def test_t104_one_signed_by_another_passkey_serves_nothing(house: House) -> None:
    """What a grant allows is read from bytes that hold, not from the columns beside them."""
    await house.agent()
    await (await Holder.of(house)).grant(signed_by=Authenticator.of(4_242))
    assert (await ran(house)).status == "paused"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("UPDATE grants SET evidence = 'no evidence' WHERE tenant = $1", id="bytes"),
        pytest.param("UPDATE passkeys SET principal = 'bob' WHERE tenant = $1", id="passkey"),
    ],
)
async def test_t104_one_that_was_tampered_with_in_the_database_serves_nothing(
    house: House, change: str
) -> None:
    """Bytes that cannot be read end no run, and a passkey of somebody else signs for nobody."""
    await house.agent()
    await (await Holder.of(house)).grant()
    await house.store.everyone.pool.execute(change, house.tenant)
    assert (await ran(house)).status == "paused"


async def test_t104_a_tool_that_came_to_need_more_asks_under_the_same_definition(
    house: House,
) -> None:
    await house.agent()
    alice = await Holder.of(house)
    await alice.grant()
    grown = House(house.store, house.tenant, house.clock, Grown())
    (before,), (after,) = (
        [tool for tool in tools.registered() if tool.name == "charge"]
        for tools in (house.tools, grown.tools)
    )
    assert before.definition_digest == after.definition_digest
    run = await ran(grown)
    (asked,) = await grown.pending(run)
    assert asked.card["missing_capabilities"] == ["arbitrary-egress", "mutate-external"]


async def test_a_call_that_does_not_meet_the_constraints_asks(house: House) -> None:
    await house.agent()
    alice = await Holder.of(house)
    limit = Constraint("/amount", "range", [1, 50])
    friends = Constraint("/to", "one_of", ["ann", "bea"])
    await alice.grant(constraints=(limit, friends))
    assert (await ran(house)).status == "completed"
    for args in ('{"amount":51,"to":"ann"}', '{"amount":40,"to":"eve"}', '{"amount":40}'):
        assert (await ran(house, f"call fetch {{}}\n---\ncall charge {args}")).status == "paused"
    assert house.tools.count("charge") == 1


async def test_f107_it_serves_an_unattended_run_alike(house: House) -> None:
    await house.agent()
    await (await Holder.of(house)).grant()
    attended = await ran(house)
    trigger = await house.person(scopes={"runs:read", "runs:write", "triggers:write"})
    unattended = await house.drive(await trigger.run(JOB, unattended=True))
    assert (attended.status, unattended.status) == ("completed", "completed")
    assert (await house.data(attended, "call.gated"))[-1] | {"call_id": ""} == (
        await house.data(unattended, "call.gated")
    )[-1] | {"call_id": ""}


async def test_nobody_else_s_run_is_served(house: House) -> None:
    await house.agent()
    await (await Holder.of(house)).grant()
    assert (await ran(house, sub="bob")).status == "paused"


class Slow(CountingTools):
    """Tools whose `fetch` does something else first."""

    def __init__(self, ending: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._ending = ending

    @override
    async def run(self, call: ToolInvocation, _workspace: Workspace) -> ToolOutcome:
        if call.name == "fetch":
            await self._ending()
        return await super().run(call, _workspace)


class Grown(CountingTools):
    """Tools of which `charge` may reach anything by now."""

    @override
    def registered(self) -> list[RegisteredTool]:
        return [
            replace(tool, profile=replace(tool.profile, origin=Origin.FETCHER))
            if tool.name == "charge"
            else tool
            for tool in super().registered()
        ]
