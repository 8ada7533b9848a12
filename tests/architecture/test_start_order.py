"""The start of a process: what guards a run is there before anything is driven (F134)."""

from __future__ import annotations

import ast

from tests.architecture.sources import APP, functions, tree

MAIN = APP / "main.py"
# What a run is guarded by: tools, rules and decisions, models, and the folding of what was left.
GUARDS = ("_toolbox", "McpServers", "_providers", "Binder", "Approvals", "Loader", "_driver")


def called(node: ast.AST) -> list[tuple[int, str]]:
    """The plain names that are called, by line."""
    return [
        (call.lineno, call.func.id)
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    ]


def test_f134_the_supervisor_starts_after_everything_that_guards_a_run() -> None:
    (opening,) = [one for one in functions(MAIN) if one.name == "open_house"]
    lines = {name: line for line, name in called(opening)}
    start = lines["_supervised"]
    assert all(lines[guard] < start for guard in GUARDS)
    assert {name for line, name in called(opening) if line > start} == {"House", "build_app"}


def test_f134_nothing_else_starts_a_supervisor() -> None:
    starts = [line for line, name in called(tree(MAIN)) if name == "_supervised"]
    runs = [path.name for path in APP.rglob("*.py") if "supervisor.run()" in path.read_text()]
    assert (len(starts), runs) == (1, ["main.py"])
