"""The operations of the description, for tests that ask each of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.architecture.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

DOCUMENT: Final[dict[str, Any]] = json.loads((ROOT / "app" / "api" / "openapi.json").read_text())
METHODS: Final = ("get", "put", "post", "patch", "delete")
# Operations that say in the body, or may say in the query, what they speak of.
ELSEWHERE: Final = ("create_run", "decide_batch", "create_artifact")


@dataclass(frozen=True)
class Operation:
    """One operation, as the description has it."""

    name: str
    method: str
    path: str
    query: Mapping[str, bool]
    """The parameters of its query, and which of them it needs."""

    @property
    def names_something(self) -> bool:
        """Whether it must be told of what it speaks."""
        return "{" in self.path or any(self.query.values()) or self.name in ELSEWHERE

    @property
    def is_list(self) -> bool:
        """Whether it reads without being told what."""
        return self.method == "get" and not self.names_something

    @property
    def removes(self) -> bool:
        """Whether others find less after it."""
        return self.method == "delete" or self.name == "cancel_run"


def query(operation: Mapping[str, Any]) -> dict[str, bool]:
    """The parameters of an operation's query, and which of them it needs."""
    shared = DOCUMENT["components"]["parameters"]
    given = [
        shared[one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        for one in operation.get("parameters", [])
    ]
    return {one["name"]: one.get("required", False) for one in given if one["in"] == "query"}


def operations(document: Mapping[str, Any]) -> list[Operation]:
    """Everything that is described; what removes comes last."""
    found = [
        Operation(operation["operationId"], method, path, query(operation))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    ]
    return sorted(found, key=lambda each: each.removes)
