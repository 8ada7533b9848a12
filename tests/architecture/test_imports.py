"""Every module imports without a warning, and the quick commands import little."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.architecture.sources import ROOT

ALL = """
import importlib, pkgutil, app
for found in pkgutil.walk_packages(app.__path__, "app."):
    importlib.import_module(found.name)
"""
LOADED = "import sys, {module}; print(' '.join(name for name in {heavy!r} if name in sys.modules))"
HEAVY = ("pydantic_ai", "openai", "anthropic", "google.genai", "mcp", "sqlalchemy", "alembic")
WEB = ("fastapi", "starlette", "uvicorn", "asyncpg", "pgqueuer", "httpx", "rich")


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter in which a warning is an error."""
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_module_imports_without_a_warning() -> None:
    done = run(ALL)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("module", "heavy"),
    [("app.cli", HEAVY + WEB), ("app.cli.issuing", HEAVY + WEB), ("app.main", HEAVY)],
    ids=["command line", "token", "service"],
)
def test_a_start_loads_no_library_before_it_is_needed(module: str, heavy: tuple[str, ...]) -> None:
    done = run(LOADED.format(module=module, heavy=heavy))
    assert (done.stderr, done.stdout.strip()) == ("", "")
