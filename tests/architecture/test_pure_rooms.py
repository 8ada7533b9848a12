"""The rooms that decide never wait: import-linter bans their imports, this bans `async` itself."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.sources import Place, nodes, room

PURE = ("policy", "engine", "trust", "log", "ids", "errors")
WAITING = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)


@pytest.mark.parametrize("name", PURE)
def test_a_pure_room_has_no_async_code(name: str) -> None:
    waiting = [
        str(Place(path, node.lineno))
        for path in room(name)
        for node in nodes(path)
        if isinstance(node, WAITING)
    ]
    assert not waiting
