"""`turngate rebuild`: equal on a log that was really written, told and repaired where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import httpx
import pytest

from app.store.server.whereabouts import running_database
from tests.e2e.processes import END_S, Place, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


async def test_a_projection_that_differs_is_told_and_repaired(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with running_database(None, data_dir=place.data) as dsn:
        with serving(place) as (address, _):
            run_id = a_finished_run(place, address)
        equal = place.run("rebuild")
        assert (equal.returncode, equal.stdout) == (0, "every projection equals its rebuild\n")
        owner = await asyncpg.connect(dsn)
        await owner.execute("UPDATE runs SET steps = 99, answer = NULL WHERE id = $1", run_id)
        told = place.run("rebuild")
        repaired = place.run("rebuild", "--repair")
        again = place.run("rebuild")
        memory = place.run("rebuild", "memory")
        await owner.close()
    place_told = f"runs {run_id}: answer, steps\n"
    assert (told.returncode, told.stdout) == (
        1,
        place_told + "run with --repair to put it right\n",
    )
    assert (repaired.returncode, repaired.stdout) == (0, place_told + "repaired\n")
    assert again.returncode == 0
    assert (memory.returncode, memory.stdout) == (
        0,
        "0 turns were added\n0 turns were embedded\n",
    )


def test_memory_of_a_database_that_was_never_migrated_cannot_be_embedded(tmp_path: Path) -> None:
    done = Place(tmp_path).run("rebuild", "memory")
    assert (done.returncode, done.stdout) == (2, "")
    assert "vector" in done.stderr


def a_finished_run(place: Place, address: str) -> str:
    """The id of a run that the script model completed."""
    headers = {"Authorization": f"Bearer {place.token('agents:write runs:write runs:read')}"}
    with httpx.Client(base_url=address, headers=headers, timeout=END_S) as client:
        assert client.put("/v1/agents/talker", json={"model": "script"}).status_code == 201
        body = {"agent": "talker", "input": "say hello"}
        run = client.post("/v1/runs", json=body, headers={"Prefer": "wait=30"}).json()
    assert run["status"] == "completed"
    run_id: str = run["id"]
    return run_id
