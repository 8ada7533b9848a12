"""Schemathesis against a real server, from the committed description.

No 500, no status, media type or body that the description does not know, no answer without a
token, and nothing to be had after it was deleted. `make fuzz` looks for longer.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from app.service.caller import SCOPES
from tests.e2e.processes import Place, serving
from tests.hostile.description import DOCUMENT

TOOL = Path(__file__).parents[2] / ".tools" / "bin" / "schemathesis"
CONFIG = Path(__file__).with_name("schemathesis.toml")
SEED = "20261130"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.postgres,
    pytest.mark.timeout(0),
    pytest.mark.skipif(not TOOL.exists(), reason="`make tools` has not installed schemathesis"),
]


def test_the_description_holds_whatever_is_asked(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seconds: int = pytestconfig.getoption("fuzz_seconds")
    place = Place(tmp_path)
    with serving(place) as (address, _):
        token = place.token(" ".join(sorted(SCOPES)), sub="mallory")
        done = subprocess.run(
            [
                *(str(TOOL), "--config-file", str(CONFIG), "--no-color"),
                *("run", str(DOCUMENT), "--url", address, "--seed", SEED),
                *("--header", f"Authorization: Bearer {token}", "--max-time", str(seconds)),
                *(
                    "--phases",
                    "coverage,stateful" if seconds < 120 else "coverage,fuzzing,stateful",
                ),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + 120,
        )
    assert done.returncode == 0, done.stdout[-20_000:]
