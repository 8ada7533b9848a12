"""The two generators, as `make tools` installs them, and what they make of the description."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.architecture.sources import ROOT
from tests.e2e.processes import END_S

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION: Final = ROOT / "app" / "api" / "openapi.json"
OPENAPI_PYTHON_CLIENT: Final = ROOT / ".tools" / "bin" / "openapi-python-client"
NODE_TOOLS: Final = ROOT / ".tools" / "node_modules" / ".bin"
SOURCES: Final = Path(__file__).parent / "typescript"
PACKAGE: Final = "turngate_client"


@dataclass(frozen=True, slots=True)
class PythonClient:
    """A generated package, spoken to as its users do."""

    connection: Any

    def call(self, operation: str, *path: str, **given: Any) -> Any:
        """One operation, such as `runs.create_run`: its model, a problem or None."""
        module = import_module(f"{PACKAGE}.api.{operation}")
        return module.sync(*path, client=self.connection, **given)

    def model(self, name: str, **members: Any) -> Any:
        """A body, or a value of a named set of words."""
        return getattr(import_module(f"{PACKAGE}.models"), name)(**members)


def generate_python(folder: Path) -> None:
    """Write the Python package into `folder`; a warning fails."""
    config = folder / "config.json"
    config.write_text(json.dumps({"post_hooks": []}))
    run(
        [
            *(OPENAPI_PYTHON_CLIENT, "generate", "--fail-on-warning", "--meta", "none"),
            *("--path", DESCRIPTION, "--output-path", folder / PACKAGE, "--config", config),
        ],
        folder,
    )


def generate_typescript(folder: Path) -> None:
    """Write the TypeScript client into `folder`, beside the program that uses it."""
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    run([NODE_TOOLS / "openapi-ts", "-i", DESCRIPTION], folder)


def run(words: Sequence[Path | str], folder: Path) -> str:
    """What a program prints, run in `folder`; it must end well."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=END_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
