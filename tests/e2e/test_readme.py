"""The README's calls, as somebody pastes them into a shell."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.docs.samples import samples
from tests.e2e.processes import END_S, Place, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

SCOPES = "agents:write runs:write runs:read approvals:read"


def test_the_calls_do_what_the_page_says(tmp_path: Path) -> None:
    place = Place(tmp_path)
    code = samples("README.md", "sh")["api"]
    with serving(place) as (address, _):
        words = ["env", f"URL={address}", f"TOKEN={place.token(SCOPES)}", "bash", "-euc", code]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=END_S)
    said, at = done.stdout, 0
    documents = []
    for _ in range(3):
        document, at = json.JSONDecoder().raw_decode(said, at)
        assert said[at] == "\n"
        at += 1
        documents.append(document)
    agent, approvals, cancelled = documents
    assert agent["name"] == "courier"
    assert [each["tool"] for each in approvals["items"]] == ["http_post"]
    assert cancelled["status"] in ("paused", "cancelled")
    types = [line.removeprefix("event: ") for line in said[at:].splitlines() if "event: " in line]
    assert types[0] == "run.created"
    assert "approval.requested" in types
    assert types[-1] == "run.cancelled"
