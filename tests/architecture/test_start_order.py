"""The start of a process: what guards a run is there before anything is driven (F134)."""

from __future__ import annotations

import ast

from tests.architecture.sources import APP, functions, tree

HOUSE, PARTS, WORKER = (APP / "main" / f"{name}.py" for name in ("house", "parts", "worker"))
# What a run is guarded by: tools, rules and decisions, models, and the folding of what was left.
GUARDS = {"open_toolbox", "McpServers", "providers_of", "Binder", "open_access"}


def called(node: ast.AST) -> list[tuple[int, str]]:
    """The plain names that are called, by line."""
    return [
        (call.lineno, call.func.id)
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    ]


def test_f134_the_supervisor_starts_after_everything_that_guards_a_run() -> None:
    (opening,) = [one for one in functions(HOUSE) if one.name == "open_house"]
    lines = {name: line for line, name in called(opening)}
    start = lines["at_work"]
    assert lines["open_parts"] < lines["edge_of"] < start
    assert {name for line, name in called(opening) if line > start} == {"House", "build_app"}
    (parts,) = [one for one in functions(PARTS) if one.name == "open_parts"]
    assert {name for _, name in called(parts)} >= GUARDS
    (working,) = [one for one in functions(WORKER) if one.name == "at_work"]
    assert [name for _, name in sorted(called(working))][:2] == ["_driver", "_supervisor"]


def test_f134_nothing_else_starts_a_supervisor() -> None:
    starts = [line for line, name in called(tree(HOUSE)) if name == "at_work"]
    runs = [path for path in APP.rglob("*.py") if "supervisor.run()" in path.read_text()]
    assert (len(starts), runs) == (1, [WORKER])
