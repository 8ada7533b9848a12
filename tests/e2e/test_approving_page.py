"""docs/approving.md: its program, pasted into a file, decides a run of a real server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from app.cli.demo.receiver import Receiver
from tests.docs.samples import samples
from tests.e2e.processes import END_S, Place, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

AGENT = {"model": "script", "tools": ["http_post"], "approval": {"http_post": "ask"}}
SCOPES = "agents:write runs:write runs:read approvals:read approvals:decide keys:write"


def asking(api: httpx.Client, url: str) -> str:
    """The id of a run that waits for a decision over one order."""
    api.put("/v1/agents/courier", json=AGENT).raise_for_status()
    order = {"agent": "courier", "input": f'call http_post {{"url": "{url}", "body": "tea"}}'}
    run = api.post("/v1/runs", json=order, headers={"Prefer": "wait=10"}).raise_for_status().json()
    assert run["status"] == "paused"
    return str(run["id"])


def ended(api: httpx.Client, run: str) -> list[dict[str, Any]]:
    """The events of a run, up to its last."""
    seq, found = 0, list[dict[str, Any]]()
    while not found or found[-1]["type"] != "run.completed":
        page = api.get(f"/v1/runs/{run}/events", params={"after": seq, "wait": 10})
        found += page.raise_for_status().json()["items"]
        seq = found[-1]["seq"]
    return found


def test_the_program_of_the_page_approves_and_denies_with_the_key_it_made(tmp_path: Path) -> None:
    place = Place(tmp_path, settings=("TURNGATE_HTTP_ALLOW_HOSTS=127.0.0.1",))
    parts = samples("docs/approving.md", "python")
    (tmp_path / "decide.py").write_text("".join(parts[n] for n in ("key", "decide", "together")))
    with Receiver() as receiver, serving(place) as (address, _):
        token = place.token(SCOPES, tenant="dev", sub="dev", roles="approver")
        bearer = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=address, headers=bearer, timeout=END_S, trust_env=False) as api:
            for choice, outcome in (("approve", "tool.completed"), ("deny", "tool.settled")):
                run = asking(api, receiver.url)
                words = ["env", f"URL={address}", f"TOKEN={token}", sys.executable, "decide.py"]
                done = place.run_words([*words, run, choice])
                assert done.returncode == 0, done.stderr
                assert done.stdout == f'http_post {{"body":"tea","url":"{receiver.url}"}}\n'
                assert outcome in [each["type"] for each in ended(api, run)]
            keys = api.get("/v1/keys").json()["items"]
        assert [each.body for each in receiver.received] == ["tea"]
    assert [key["label"] for key in keys] == ["decide.py"]
    assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600
