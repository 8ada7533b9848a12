"""A grant from its ceremony over HTTP to the call that it lets run, and to the one it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api_driver import ApiDriver, data_of
from tests.support.grant_holder import Holder

if TYPE_CHECKING:
    from tests.support.api_world import ApiWorld, Person

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]

# Nothing is sent: the address is refused when the call runs, after the gate has let it.
ORDERS = "https://127.0.0.1/orders"


async def ran(world: ApiWorld, person: Person, url: str) -> dict[str, Any]:
    """A run of the courier that posts there, tainted by what its caller attached."""
    post = f'call http_post {{"url":"{url}","body":"1"}}\n---\nsay ok'
    run = await person.run("courier", input=post, caller_memory="from elsewhere")
    return await ApiDriver.of(world).until_idle(person, run)


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
