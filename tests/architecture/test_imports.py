"""Every module imports without a warning, and the quick commands import little."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.architecture.sources import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ALL = """
import importlib, pkgutil, app
for found in pkgutil.walk_packages(app.__path__, "app."):
    importlib.import_module(found.name)
"""
HEAVY = (
    *("pydantic_ai", "openai", "anthropic", "google.genai", "mcp", "sqlalchemy", "sqlmodel"),
    *("alembic", "numpy", "wordllama", "obstore"),
)
WEB = ("fastapi", "starlette", "uvicorn", "asyncpg", "pgqueuer", "httpx", "structlog", "webauthn")
LOADED = "print('loaded', *(name for name in {heavy!r} if name in sys.modules))"
IMPORTED = "import sys, {module}\n" + LOADED
# A command that stands alone ends its process.
RUN = "import sys; from app.cli import app; app({words!r}, standalone_mode=False)\n" + LOADED
TOKEN = ("token", "--tenant", "acme", "--sub", "alice", "--scope", "runs:read")


def run(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter in which a warning is an error."""
    command = ["env", *(f"TURNGATE_{name}={value}" for name, value in settings.items())]
    command += [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_module_imports_without_a_warning() -> None:
    done = run(ALL)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("module", "heavy"),
    [("app.cli", (*HEAVY, *WEB, "pydantic", "cryptography", "rich")), ("app.main.house", HEAVY)],
    ids=["command line", "service"],
)
def test_a_start_loads_no_library_before_it_is_needed(module: str, heavy: tuple[str, ...]) -> None:
    done = run(IMPORTED.format(module=module, heavy=heavy))
    assert (done.stderr, done.stdout) == ("", "loaded\n")


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], (*HEAVY, *WEB, "cryptography")),
        (["--version"], (*HEAVY, *WEB, "cryptography", "rich")),
        ([*TOKEN], (*HEAVY, *WEB, "rich", "app.log.runs")),
        (["token", "--help"], (*HEAVY, *WEB, "cryptography")),
        (["audit", "verify", "--help"], (*HEAVY, *WEB, "cryptography")),
    ],
    ids=" ".join,
)
def test_a_quick_command_loads_what_it_needs_alone(
    tmp_path: Path, words: list[str], heavy: tuple[str, ...]
) -> None:
    """What it costs is what it imports, and this is the same on a busy machine."""
    done = run(RUN.format(words=words, heavy=heavy), DATA_DIR=str(tmp_path / "data"))
    assert (done.stderr, done.stdout.splitlines()[-1]) == ("", "loaded")
