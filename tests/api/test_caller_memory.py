"""What a caller attaches to a run for its model, over HTTP (service.md 4, run-context.md 3.9)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api.driver import ApiDriver
from tests.support.api.world import problem
from tests.support.clock import PlayedClock
from tests.support.played.recorded_script import RecordedScript

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONGEST = "x" * (32 * 1024 - 2)
VALUES: list[Any] = [{"plan": [1, 2.5, None]}, [], "text", 7, False, LONGEST]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value)[:20])
async def test_any_json_value_is_shown_to_the_model_and_to_nobody_else(
    world: ApiWorld, value: Any
) -> None:
    """C57."""
    alice, model = world.person(), RecordedScript(PlayedClock())
    await alice.agent()
    run = await alice.run(caller_memory=value)
    run = await ApiDriver.of(world, providers=model).until_idle(alice, run)
    assert (run["status"], run["tainted"]) == ("completed", True)
    [block] = model.requests[0].context
    assert json.loads(block.splitlines()[-3]) == {"caller_supplied": value}
    events = await alice.get(f"/v1/runs/{run['id']}/events?limit=1000")
    assert "caller_supplied" not in events.text
    assert LONGEST not in events.text


async def test_c63_more_than_32_kib_is_refused_before_there_is_a_run(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    asked = {"agent": "helper", "input": "say hi", "caller_memory": LONGEST + "x"}
    problem(await alice.post("/v1/runs", asked), 422, "caller_memory.too_large")
    assert (await alice.get("/v1/runs")).json()["items"] == []


async def test_c59_a_null_that_was_sent_ends_the_run(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    run = await ApiDriver.of(world).until_idle(alice, await alice.run(caller_memory=None))
    assert (run["status"], run["error"]["code"]) == ("failed", "runloop_error")
