"""Served, with the vectors that come with it: what a run was told, another recalls by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.e2e.processes import END_S, Place, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

SCOPES = "agents:write runs:write runs:read memory:read"
SAID = "say the invoices are due on friday"
OTHER = "say a cake needs three eggs"


def test_a_run_recalls_by_meaning_what_another_was_told(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place) as (address, _):
        headers = {"Authorization": f"Bearer {place.token(SCOPES)}"}
        with httpx.Client(base_url=address, headers=headers, timeout=END_S) as client:
            memory = {"retrieval": "semantic", "scope": "user", "top_k": 1}
            agent = {"model": "script", "memory": memory}
            assert client.put("/v1/agents/clerk", json=agent).status_code == 201
            told = [ran(client, text)["conversation_id"] for text in (SAID, OTHER)]
            run = ran(client, "say when must bills be paid")
            events = f"/v1/runs/{run['id']}/events"
            pages = client.get(events, params={"limit": 200}).json()["items"]
            search = f"/v1/conversations/{run['conversation_id']}/memory/search"
            asked = {"q": "when must bills be paid", "top_k": "3"}
            found = client.get(search, params=asked).json()
    [assembled] = [one["data"] for one in pages if one["type"] == "context.assembled"]
    assert assembled["tiers"] == ["external"]
    assert (assembled["recall"]["returned"], assembled["recall"]["kept"]) == (1, 1)
    assert found["unindexed"] == 0
    nearest = [hit["conversation_id"] for hit in found["items"]]
    assert nearest == [run["conversation_id"], *told]


def ran(client: httpx.Client, text: str) -> dict[str, Any]:
    """A run of a conversation of its own that completed."""
    body = {"agent": "clerk", "input": text}
    run: dict[str, Any] = client.post("/v1/runs", json=body, headers={"Prefer": "wait=30"}).json()
    assert run["status"] == "completed"
    return run
