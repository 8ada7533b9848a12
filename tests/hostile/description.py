"""The routes of the committed description, with a sound example of every body and parameter."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DOCUMENT: Final = Path(__file__).parents[2] / "app" / "api" / "openapi.json"
JSON: Final = "application/json"
HOLE: Final = "@@hole@@"
DEEPEST: Final = 4
UNKNOWN: Final = "01890000-0000-7000-8000-000000000000"
# Members that are only taken with one of these texts; any text does elsewhere.
_TEXTS: Final = {
    "agent": "helper",
    "model": "script",
    "input": "say hi",
    "url": "http://127.0.0.1:9/",
    "pattern": "sk-[a-z0-9]+",
    # Of a skill; any other scope needs a conversation.
    "scope": "project",
}

_document: Final[dict[str, Any]] = json.loads(DOCUMENT.read_bytes())


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, and what may be answered to it."""

    ident: str
    method: str
    template: str
    body: Mapping[str, Any] | None
    media_types: tuple[str, ...]
    queries: Mapping[str, bool]
    statuses: frozenset[int]
    is_guarded: bool

    @property
    def segments(self) -> tuple[str, ...]:
        """The names of the path's parameters."""
        return tuple(part[1:-1] for part in self.template.split("/") if part.startswith("{"))

    def path(self, segments: Mapping[str, str], *, query: Mapping[str, str] | None = None) -> str:
        """The path, with the required query; all others are ids that nothing has."""
        ids = {name: f"{name.removesuffix('_id')}_{UNKNOWN}" for name in self.segments}
        required = {name: "1" for name, is_required in self.queries.items() if is_required}
        pairs = "&".join(
            f"{name}={value}" for name, value in (required | dict(query or {})).items()
        )
        return self.template.format(**(ids | dict(segments))) + (f"?{pairs}" if pairs else "")


def operations() -> list[Operation]:
    """All of them, in the order of the description."""
    return [
        _operation(path, method, operation)
        for path, methods in _document["paths"].items()
        for method, operation in methods.items()
    ]


def _operation(path: str, method: str, operation: dict[str, Any]) -> Operation:
    content = operation.get("requestBody", {}).get("content", {})
    parameters = [_resolved(parameter) for parameter in operation.get("parameters", ())]
    return Operation(
        ident=operation["operationId"],
        method=method.upper(),
        template=path,
        body=content.get(JSON, {}).get("schema"),
        media_types=tuple(content),
        queries={one["name"]: one["required"] for one in parameters if one["in"] == "query"},
        statuses=frozenset(map(int, operation["responses"])),
        is_guarded="security" in operation,
    )


def with_holes(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The pointer of every member of a body, and a sound body's text with a hole there.

    But for the way to the hole the body has only what it must, so that as much as can be is taken.
    """
    for pointer, holed in _holed(schema, "", ""):
        yield pointer, json.dumps(holed)


def example(schema: Mapping[str, Any], name: str = "") -> Any:
    """A value of the schema with no more members than it must have."""
    schema = _resolved(schema)
    if "const" in schema or "enum" in schema:
        words = schema.get("enum", [schema.get("const")])
        return _TEXTS[name] if _TEXTS.get(name) in words else words[0]
    match schema.get("type"):
        case "object":
            required = schema.get("required", ())
            return {one: example(schema["properties"][one], one) for one in required}
        case "array":
            return [example(schema["items"], name)] * schema.get("minItems", 0)
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "string":
            return _TEXTS.get(name, "a" * max(1, schema.get("minLength", 1)))
        case _:
            return None


def _holed(schema: Mapping[str, Any], pointer: str, name: str) -> Iterator[tuple[str, Any]]:
    yield pointer, HOLE
    schema = _resolved(schema)
    if pointer.count("/") >= DEEPEST:
        return
    for choice in schema.get("anyOf", ()):
        yield from (pair for pair in _holed(choice, pointer, name) if pair[0] != pointer)
    members = {**schema.get("properties", {}), **_free_member(schema)}
    if members:
        sound = example(schema)
        for one, member in members.items():
            for inner, holed in _holed(member, f"{pointer}/{one}", one):
                yield inner, sound | {one: holed}
    if "items" in schema:
        for inner, holed in _holed(schema["items"], f"{pointer}/0", name):
            yield inner, [holed]


def _free_member(schema: Mapping[str, Any]) -> dict[str, Any]:
    others = schema.get("additionalProperties")
    return {"any": others} if isinstance(others, dict) else {}


def _resolved(node: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in node:
        found: Any = _document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node
