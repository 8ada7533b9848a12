"""The TypeScript client that openapi-ts generates type-checks and does the main job."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.clients.generated import NODE_TOOLS, generate_typescript, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.conftest import Address

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        shutil.which("node") is None or not (NODE_TOOLS / "tsc").exists(),
        reason="there is no node, or `make tools` has not been run",
    ),
]


def test_the_main_job_through_a_generated_client(address: Address, tmp_path: Path) -> None:
    """F3, F130, F131: a decision signed by it is taken, and a tag of the union narrows its event.

    All of it under the strictest checks of tsc.
    """
    generate_typescript(tmp_path)
    run([NODE_TOOLS / "tsc"], tmp_path)
    told = run(["node", "built/main_job.js", address.url, address.token("bob")], tmp_path)
    assert json.loads(told) == {
        "paused": ["clock_now"],
        "persisted": True,
        "status": "completed",
        "answer": "told",
        "missing": "not_found",
    }
