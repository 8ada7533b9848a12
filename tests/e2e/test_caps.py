"""The operator's caps reach the runs of a server: on steps (turn.md 2.1), and on a kept result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.e2e.processes import END_S, Place, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

SCOPES = "agents:write runs:write runs:read"


def ran(place: Place, program: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A run of a server at that place once it has ended, and its events."""
    with serving(place) as (address, _):
        headers = {"Authorization": f"Bearer {place.token(SCOPES)}"}
        with httpx.Client(base_url=address, headers=headers, timeout=END_S) as client:
            tools = ["clock_now", "files_write", "files_read"]
            client.put("/v1/agents/clerk", json={"model": "script", "tools": tools})
            body = {"agent": "clerk", "input": program}
            run = client.post("/v1/runs", json=body, headers={"Prefer": "wait=30"}).json()
            return run, client.get(f"/v1/runs/{run['id']}/events?limit=1000").json()["items"]


def test_a_server_s_runs_take_as_many_steps_as_it_is_set_to(tmp_path: Path) -> None:
    """Two steps and the closing completion, which runs nothing."""
    program = "\n---\n".join(["call clock_now {}"] * 4)
    run, events = ran(Place(tmp_path, ("TURNGATE_MAX_STEPS=2",)), program)
    assert (run["status"], run["error"]["code"]) == ("failed", "no_path")
    assert [event["type"] for event in events].count("tool.started") == 2


def test_a_result_over_the_bound_of_artifacts_is_shown_cut_and_not_kept(tmp_path: Path) -> None:
    program = (
        f'call files_write {{"path":"a","content":"{"x" * 70_000}"}}'
        '\n---\ncall files_read {"path":"a"}\n---\nsay done'
    )
    run, events = ran(Place(tmp_path, ("TURNGATE_ARTIFACT_MAX_BYTES=70000",)), program)
    assert run["status"] == "completed"
    (read,) = (
        event["data"]
        for event in events
        if event["type"] == "tool.completed" and event["data"]["tool"] == "files_read"
    )
    assert (read["truncated"], read["artifact_id"]) == (True, None)
