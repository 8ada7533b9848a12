"""The description: what generated clients live on (service.md 1; field cases F129 to F132)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.api.app import openapi_document
from app.log.catalogue import PAYLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMITTED = Path(__file__).parents[2] / "app" / "api" / "openapi.json"
METHODS = {"get", "put", "post", "patch", "delete"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(openapi_document())
    return described


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert method in METHODS
            yield f"{method.upper()} {path}", operation


def nodes(value: Any, at: str = "#") -> Iterator[tuple[str, Any]]:
    yield at, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from nodes(item, f"{at}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from nodes(item, f"{at}/{index}")


def test_f132_the_description_is_the_committed_one() -> None:
    # `turngate openapi > app/api/openapi.json` after a change that is meant.
    assert openapi_document() == COMMITTED.read_bytes()


def test_f132_no_schema_has_a_generated_twin(document: dict[str, Any]) -> None:
    generated = [
        name
        for name in document["components"]["schemas"]
        if name.startswith("Body_") or "__" in name or name.endswith(("-Input", "-Output"))
    ]
    assert generated == []


def test_operation_ids_are_explicit_and_unique(document: dict[str, Any]) -> None:
    idents = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(idents)) == len(idents)
    assert {"create_run", "approve_approval", "put_agent", "register_key"} <= set(idents)
    assert all(ident.replace("_", "").isalpha() for ident in idents)


def test_every_object_with_members_is_a_named_schema(document: dict[str, Any]) -> None:
    anonymous = [
        at
        for at, node in nodes(document)
        if isinstance(node, dict)
        and node.get("type") == "object"
        and "properties" in node
        and at.rpartition("/")[0] != "#/components/schemas"
    ]
    assert anonymous == []


def test_f129_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    known = {at for at, _ in nodes(document)}
    references = {node["$ref"] for _, node in nodes(document) if is_reference(node)}
    assert references <= known


def is_reference(node: Any) -> bool:
    return isinstance(node, dict) and isinstance(node.get("$ref"), str)


def test_f129_a_nullable_union_is_never_a_tagged_one(document: dict[str, Any]) -> None:
    """A tagged union beside null is what breaks generated clients."""
    for at, node in nodes(document):
        if isinstance(node, dict) and "anyOf" in node:
            assert "discriminator" not in node, at
            assert not any("oneOf" in member for member in node["anyOf"]), at


def test_f130_unions_are_flat_with_one_type_tag(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    unions = {name: schema for name, schema in schemas.items() if "oneOf" in schema}
    assert unions.keys() == {"Event"}
    for schema in unions.values():
        assert schema["discriminator"]["propertyName"] == "type"
        for member in schema["oneOf"]:
            target = schemas[member["$ref"].rpartition("/")[2]]
            assert target["type"] == "object"
            assert "const" in target["properties"]["type"]


def test_f131_one_tag_has_one_schema_and_is_the_value_on_the_wire(
    document: dict[str, Any],
) -> None:
    schemas = document["components"]["schemas"]
    mapping = schemas["Event"]["discriminator"]["mapping"]
    assert mapping.keys() == PAYLOADS.keys()
    assert len(set(mapping.values())) == len(mapping)
    for tag, reference in mapping.items():
        assert schemas[reference.rpartition("/")[2]]["properties"]["type"]["const"] == tag


def test_every_operation_of_v1_declares_its_problems(document: dict[str, Any]) -> None:
    responses = document["components"]["responses"]
    for where, operation in operations(document):
        if "/v1/" not in where:
            continue
        declared = {code: r for code, r in operation["responses"].items() if code >= "400"}
        assert {"401", "403", "404", "422", "500", "503"} <= declared.keys(), where
        for response in declared.values():
            named = responses[response["$ref"].rpartition("/")[2]]
            assert named["content"].keys() == {"application/problem+json"}, where


def test_every_operation_of_v1_names_its_scopes(document: dict[str, Any]) -> None:
    for where, operation in operations(document):
        assert ("security" in operation) == ("/v1/" in where), where


def test_every_write_takes_an_idempotency_key(document: dict[str, Any]) -> None:
    without = {
        operation["operationId"]
        for where, operation in operations(document)
        if not where.startswith("GET ")
        and {"$ref": "#/components/parameters/IdempotencyKey"}
        not in operation.get("parameters", [])
    }
    # They store nothing, and every answer has a nonce of its own.
    decisions = {"prepare_decision", "prepare_passkey", "prepare_passkey_decision"}
    assert without == decisions | {"prepare_grant", "prepare_grant_revocation"}


def test_all_operations_on_approvals_have_one_tag(document: dict[str, Any]) -> None:
    for where, operation in operations(document):
        if "/v1/approvals" in where:
            assert operation["tags"] == ["approvals"], where
