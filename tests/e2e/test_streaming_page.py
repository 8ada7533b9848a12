"""docs/streaming.md: its client follows a run over the WebSocket of a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tests.docs.samples import program
from tests.e2e.processes import END_S, Place, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


def test_the_client_of_the_page_follows_a_run_to_its_end_and_resumes(tmp_path: Path) -> None:
    follow = program("docs/streaming.md")["follow"]
    place = Place(tmp_path)
    with serving(place) as (address, _):
        token = place.token("agents:write runs:write runs:read")
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=address, headers=headers, timeout=END_S) as api:
            api.put("/v1/agents/clerk", json={"model": "script"}).raise_for_status()
            order = {"agent": "clerk", "input": "say Good morning."}
            run = api.post("/v1/runs", json=order).raise_for_status().json()
        events = list(follow(address, token, run["id"]))
        rest = list(follow(address, token, run["id"], after=events[1]["seq"]))
        with pytest.raises(RuntimeError, match=r"^auth\.token: "):
            list(follow(address, "no token", run["id"]))
    assert (events[0]["type"], events[-1]["type"]) == ("run.created", "run.completed")
    assert rest == events[2:]
