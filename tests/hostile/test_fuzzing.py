"""Schemathesis against a real server, from the committed description.

No 500, no status, media type or body that the description does not know, no answer without a
token, and nothing to be had after it was deleted. First every operation by itself; then chains of
them, along the links of the description. `make fuzz` looks for longer.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from app.service.caller import SCOPES
from app.service.clock import SystemClock
from tests.e2e.processes import Place, serving
from tests.hostile.description import DOCUMENT
from tests.hostile.target import PROGRAM
from tests.support.api.world import thumbprint
from tests.trust.signer import Signer, compact

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOL = Path(__file__).parents[2] / ".tools" / "bin" / "schemathesis"
CONFIG = Path(__file__).with_name("schemathesis.toml")
SEED = "20261130"
LONG_S = 120

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.postgres,
    pytest.mark.timeout(0),
    pytest.mark.skipif(not TOOL.exists(), reason="`make tools` has not installed schemathesis"),
]


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """A server with something of every kind in it, and who fuzzes it."""

    folder: Path
    address: str
    token: str

    def fuzz(self, phases: str, *bound: str) -> subprocess.CompletedProcess[str]:
        """Schemathesis to its end, within a bound of its own; what it did is in its report."""
        words = [
            *("env", f"TOKEN={self.token}", str(TOOL), "--config-file", str(CONFIG), "--no-color"),
            *("run", str(DOCUMENT), "--url", self.address, "--seed", SEED),
            *("--phases", phases, *bound),
            *("--report-ndjson-path", str(self.folder / "report.ndjson")),
        ]
        return subprocess.run(
            words,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def followed(self) -> dict[str, set[int]]:
        """The links that were followed with what an answer named, and what was answered then."""
        found: dict[str, set[int]] = {}
        for line in (self.folder / "report.ndjson").read_text().splitlines():
            recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
            for ident, case in recorder.get("cases", {}).items():
                if case.get("transition") and case["is_transition_applied"]:
                    answer = recorder["interactions"][ident]["response"]
                    found.setdefault(case["transition"]["id"], set()).add(answer["status_code"])
        return found

    def furnish(self) -> None:
        """An agent, a run that waits for a decision and an answer, a key, a file and a skill."""
        bearer = {"Authorization": f"Bearer {self.token}"}
        with httpx.Client(base_url=self.address, headers=bearer, timeout=60) as http:
            agent = {"model": "script", "tools": ["ask_question", "http_post"]}
            skill = {"trigger": "x", "steps": ["y"], "origin": "pack", "scope": "project"}
            made = [
                http.put("/v1/agents/helper", json=agent),
                http.put("/v1/skills/guide", json=skill),
                http.post("/v1/keys", json=_enrolment(Signer.of(9))),
            ]
            asked = {"agent": "helper", "input": PROGRAM}
            run = http.post("/v1/runs", json=asked, headers={"Prefer": "wait=60"})
            upload = f"/v1/artifacts?conversation_id={run.json()['conversation_id']}"
            file = http.post(upload, content=b"text", headers={"Content-Type": "text/plain"})
        assert [answer.status_code for answer in (*made, run, file)] == [201] * 5
        assert run.json()["status"] == "paused"


def _enrolment(signer: Signer) -> dict[str, Any]:
    known = thumbprint(signer)
    now = int(SystemClock().now().timestamp())
    statement = {
        "typ": "turngate.key-proof",
        "tenant": "acme",
        "sub": "mallory",
        "thumbprint": known,
        "iat": now,
        "exp": now + 300,
    }
    head = {"alg": "ES256", "kid": known, "typ": "turngate-key-proof+jws"}
    proof = signer.jws(head, compact(statement))
    return {"public_jwk": signer.jwk, "label": "laptop", "proof_jws": proof}


@contextmanager
def fuzzed(folder: Path) -> Iterator[Fuzzed]:
    place = Place(folder)
    with serving(place) as (address, _):
        token = place.token(" ".join(sorted(SCOPES)), sub="mallory", roles="approver")
        target = Fuzzed(folder, address, token)
        target.furnish()
        yield target


def test_the_description_holds_whatever_is_asked(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seconds: int = pytestconfig.getoption("fuzz_seconds")
    phases, share = ("coverage", 1) if seconds < LONG_S else ("coverage,fuzzing", 2)
    with fuzzed(tmp_path) as target:
        done = target.fuzz(phases, "--max-time", str(seconds // share))
    assert done.returncode == 0, done.stdout[-20_000:]


def test_it_holds_along_the_chains_of_its_links(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seconds: int = pytestconfig.getoption("fuzz_seconds")
    # A number of chains and not a time, so that a busy machine follows as many.
    bound = ("--max-examples", "50") if seconds < LONG_S else ("--max-time", str(seconds // 2))
    with fuzzed(tmp_path) as target:
        done = target.fuzz("stateful", *bound)
        followed = target.followed()
    assert done.returncode == 0, done.stdout[-20_000:]
    taken = [link for link, statuses in followed.items() if min(statuses) < 300]
    assert taken, f"no link led to an answer: {followed}"
