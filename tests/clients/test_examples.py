"""docs/examples: its modules hold under the strictest checks of tsc, by the types they state."""

from __future__ import annotations

import shutil

import pytest

from tests.architecture.sources import ROOT
from tests.clients.generated import NODE_TOOLS, run

EXAMPLES = ROOT / "docs" / "examples"
STRICT = (
    *("--noEmit", "--allowJs", "--checkJs", "--strict", "--noUncheckedIndexedAccess"),
    *("--target", "es2022", "--module", "es2022", "--lib", "es2023,dom,dom.iterable"),
)


@pytest.mark.skipif(
    shutil.which("node") is None or not (NODE_TOOLS / "tsc").exists(),
    reason="there is no node, or `make tools` has not been run",
)
def test_the_modules_type_check() -> None:
    modules = sorted(EXAMPLES.glob("*.js"))
    assert modules
    run([NODE_TOOLS / "tsc", *STRICT, *modules], EXAMPLES)
