"""Runs over HTTP: create, wait, read, list, cancel (service.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.api_world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_run_is_created_and_read_back(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    answer = await alice.post("/v1/runs", {"agent": "helper", "input": "say hi"})
    assert answer.status_code == 201, answer.text
    run = answer.json()
    assert answer.headers["location"] == f"/v1/runs/{run['id']}"
    assert (await alice.get(f"/v1/runs/{run['id']}")).json() == run
