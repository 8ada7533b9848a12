"""python-jose stays behind its fence: one importer, no JWE, literal algorithms (F124)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.architecture.sources import APP, nodes, tree

if TYPE_CHECKING:
    from pathlib import Path

FENCE = APP / "trust" / "jose.py"
SOURCES = sorted(APP.rglob("*.py"))
OTHERS = [path for path in SOURCES if path != FENCE]


def imported(tree: ast.AST) -> set[str]:
    """The dotted names that a file imports, and those it asks for by text."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(module=str(module), names=aliases):
                names |= {f"{module}.{alias.name}" for alias in aliases}
            case ast.Constant(value=str(text)):
                # Any text that could be handed to a dynamic import.
                names.add(text)
            case _:
                pass
    return names


def is_jose(name: str) -> bool:
    """Whether a dotted name lies in the package `jose` (and not in `app.trust.jose`)."""
    return name == "jose" or name.startswith("jose.")


def verifications(tree: ast.AST) -> list[ast.Call]:
    """Calls of a method named `verify` or `decode`, however the module is called."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [
        call
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in {"verify", "decode"}
        # base64url.decode is ours, and takes text alone.
        and not (isinstance(call.func.value, ast.Name) and call.func.value.id == "base64url")
    ]


def algorithms(call: ast.Call) -> list[str]:
    """The literal algorithms that a call passes, none where they are anything but literals."""
    for keyword in call.keywords:
        if keyword.arg == "algorithms" and isinstance(keyword.value, ast.List):
            return [
                item.value
                for item in keyword.value.elts
                if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]
    return []


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: str(path.relative_to(APP)))
def test_no_other_file_imports_python_jose_by_statement_or_by_text(path: Path) -> None:
    assert not {name for name in imported(tree(path)) if is_jose(name)}


def test_the_fence_imports_the_library_and_never_jwe_or_jwt() -> None:
    names = {name for name in imported(tree(FENCE)) if is_jose(name)}
    assert names == {
        "jose.jws",
        "jose.backends.cryptography_backend.CryptographyECKey",
        "jose.backends.cryptography_backend.CryptographyRSAKey",
    }


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(APP)))
def test_no_file_refers_to_jwe(path: Path) -> None:
    assert not [one for one in nodes(path) if isinstance(one, ast.Name) and one.id == "jwe"]
    assert not [one for one in nodes(path) if isinstance(one, ast.Attribute) and one.attr == "jwe"]


def test_f124_every_verification_passes_a_literal_list_of_algorithms() -> None:
    """F124: one algorithm for each kind of key, and none that a token could have chosen."""
    calls = verifications(tree(FENCE))
    assert [algorithms(call) for call in calls] == [["ES256"], ["RS256"]]


@pytest.mark.parametrize(
    "code",
    [
        "jws.verify(token, key)",
        "jws.verify(token, key, algorithms=[])",
        "jws.verify(token, key, algorithms='ES256')",
        "jws.verify(token, key, algorithms=header.alg)",
        "jws.verify(token, key, algorithms=[header.alg])",
    ],
)
def test_f124_a_call_without_them_would_be_found(code: str) -> None:
    """F124: the check above sees each way of leaving the choice to the token."""
    assert [algorithms(call) for call in verifications(ast.parse(code))] == [[]]


@pytest.mark.parametrize(
    "code",
    ["import jose", "from jose import jwt", "import jose.jws", "import_module('jose.jwe')"],
)
def test_an_import_outside_the_fence_would_be_found(code: str) -> None:
    assert any(is_jose(name) for name in imported(ast.parse(code)))
