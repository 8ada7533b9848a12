"""A grant from its ceremony over HTTP to the call that it lets run, and to the one it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api.driver import ApiDriver, data_of
from tests.support.api.grant_holder import Holder, answered

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld, Person

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]

# Nothing is sent: the address is refused when the call runs, after the gate has let it.
ORDERS = "https://127.0.0.1/orders"


async def ran(world: ApiWorld, person: Person, url: str, **place: str) -> dict[str, Any]:
    """A run of the courier that posts there, tainted by what its caller attached."""
    post = f'call http_post {{"url":"{url}","body":"{{}}"}}\n---\nsay ok'
    run = await person.run("courier", input=post, caller_memory="from elsewhere", **place)
    return await ApiDriver.of(world).until_idle(person, run)


async def decide(holder: Holder, approval_id: str, verdict: str) -> None:
    """Decide with the passkey that grants things as well."""
    path = f"/v1/approvals/{approval_id}"
    options = answered(await holder.person.post(f"{path}/passkey-options", {"decision": verdict}))
    signed = {"passkey": holder.authenticator.sign(options["canonical"])}
    answered(await holder.person.post(f"{path}/{verdict}", signed))


async def test_t103_a_grant_signed_over_http_serves_what_it_names(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent("courier", tools=["http_post"], approval={"*": "allow"})
    holder = await Holder.of(alice)
    below = {"pointer": "/url", "op": "url_prefix", "value": ORDERS}
    grant = await holder.grant(constraints=[below])
    run = await ran(world, alice, f"{ORDERS}/7")
    assert (run["status"], run["tainted"]) == ("completed", True)
    [started] = await data_of(alice, run, "tool.started")
    assert started["covered_by"] == {"kind": "grant", "id": grant["id"]}
    [use] = (await holder.read(grant["id"]))["uses"]
    assert (use["run_id"], use["call_id"]) == (run["id"], started["call_id"])
    assert (await ran(world, alice, f"{ORDERS}-of-others"))["status"] == "paused"
    await holder.revoke(grant["id"])
    assert (await ran(world, alice, f"{ORDERS}/7"))["status"] == "paused"


async def test_f121_the_offer_of_a_card_is_signed_as_it_is_and_spares_the_next_question(
    world: ApiWorld,
) -> None:
    """The second card offers a grant; under it the like runs unasked, and all else still asks."""
    alice, drives = world.person(), ApiDriver.of(world)
    await alice.agent("courier", tools=["http_post"], approval={"*": "allow"})
    holder = await Holder.of(alice)
    first = await ran(world, alice, ORDERS)
    [unasked] = first["pause"]["approvals"]
    assert "grant_offer" not in (await alice.get(f"/v1/approvals/{unasked['id']}")).json()
    await decide(holder, unasked["id"], "approve")
    await drives.until_idle(alice, first)
    place = {"conversation_id": first["conversation_id"]}
    second = await ran(world, alice, f"{ORDERS}/7", **place)
    [asked] = second["pause"]["approvals"]
    offer = (await alice.get(f"/v1/approvals/{asked['id']}")).json()["grant_offer"]
    [card] = await data_of(alice, second, "approval.requested")
    assert offer == card["grant_offer"]
    assert offer["constraints"] == [{"pointer": "/url", "op": "url_prefix", "value": ORDERS}]
    grant = await holder.grant(**offer)
    await decide(holder, asked["id"], "deny")
    await drives.until_idle(alice, second)
    third = await ran(world, alice, f"{ORDERS}/8", **place)
    [started] = await data_of(alice, third, "tool.started")
    assert (third["status"], started["covered_by"]["id"]) == ("completed", grant["id"])
    outside = await ran(world, alice, f"{ORDERS}-of-others", **place)
    [asked] = outside["pause"]["approvals"]
    card = (await alice.get(f"/v1/approvals/{asked['id']}")).json()
    assert (outside["status"], "grant_offer" in card) == ("paused", False)
