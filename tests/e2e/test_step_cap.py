"""The operator's step cap reaches the runs of a server (turn.md 2.1, TURNGATE_MAX_STEPS)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tests.e2e.processes import END_S, Place, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

SCOPES = "agents:write runs:write runs:read"
PROGRAM = "\n---\n".join(["call clock_now {}"] * 4)


def test_a_server_s_runs_take_as_many_steps_as_it_is_set_to(tmp_path: Path) -> None:
    """Two steps and the closing completion, which runs nothing."""
    place = Place(tmp_path, ("TURNGATE_MAX_STEPS=2",))
    with serving(place) as (address, _):
        headers = {"Authorization": f"Bearer {place.token(SCOPES)}"}
        with httpx.Client(base_url=address, headers=headers, timeout=END_S) as client:
            client.put("/v1/agents/clerk", json={"model": "script", "tools": ["clock_now"]})
            body = {"agent": "clerk", "input": PROGRAM}
            run = client.post("/v1/runs", json=body, headers={"Prefer": "wait=30"}).json()
            events = client.get(f"/v1/runs/{run['id']}/events?limit=1000").json()["items"]
    assert (run["status"], run["error"]["code"]) == ("failed", "no_path")
    assert [event["type"] for event in events].count("tool.started") == 2
