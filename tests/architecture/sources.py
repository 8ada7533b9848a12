"""The files of the house as the architecture tests read them: parsed once, never imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
APP = ROOT / "app"
HOUSE = [path for folder in ("app", "tests", "bench") for path in (ROOT / folder).rglob("*.py")]

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, as a message shows it."""

    path: Path
    line: int

    @override
    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


@cache
def tree(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, however deep inside an expression."""
    return tuple(ast.walk(tree(path)))


def functions(path: Path) -> Iterator[Function]:
    """Every function of a file, methods and inner ones included."""
    for node in nodes(path):
        if isinstance(node, Function):
            yield node


@cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """The dotted names that a file imports anywhere, each with its line."""
    found: list[tuple[str, int]] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
    return tuple(found)


def room(name: str) -> list[Path]:
    """The files of a room, whether it is a folder or one module."""
    folder = APP / name
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def rooms() -> list[str]:
    """The names of all rooms."""
    found = [path for path in APP.iterdir() if path.is_dir() or path.suffix == ".py"]
    return sorted(path.stem for path in found if not path.stem.startswith("__"))
