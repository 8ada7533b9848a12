"""The links of the description: what may follow an answer, and with what of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from app.api.app import openapi_document

if TYPE_CHECKING:
    from collections.abc import Iterator

Link = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(openapi_document())
    return described


def operations(document: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        operation["operationId"]: (path, operation)
        for path, methods in document["paths"].items()
        for operation in methods.values()
    }


def links(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """The source, the answer's schema and the link, of each of them."""
    for source, (_, operation) in operations(document).items():
        for response in operation["responses"].values():
            for link in response.get("links", {}).values():
                yield source, response["content"]["application/json"]["schema"], link


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return next((one for one in choices if one.get("type") != "null"), schema)


def names_something(document: dict[str, Any], schema: dict[str, Any], pointer: str) -> bool:
    for part in pointer.removeprefix("/").split("/"):
        schema = resolved(document, resolved(document, schema))
        member = schema.get("items") if part == "0" else schema.get("properties", {}).get(part)
        if member is None:
            return False
        schema = member
    return True


@pytest.mark.parametrize(
    ("source", "status", "target", "taken"),
    [
        ("put_agent", "201", "create_run", {"requestBody": {"agent": "$response.body#/name"}}),
        ("create_run", "201", "get_run", {"parameters": {"run_id": "$response.body#/id"}}),
        ("create_run", "201", "cancel_run", {"parameters": {"run_id": "$response.body#/id"}}),
        ("create_run", "201", "list_run_events", {"parameters": {"run_id": "$response.body#/id"}}),
        (
            "create_run",
            "201",
            "list_approvals",
            {
                "parameters": {
                    "run_id": "$response.body#/id",
                    "conversation_id": "$response.body#/conversation_id",
                }
            },
        ),
        (
            "list_approvals",
            "200",
            "prepare_decision",
            {"parameters": {"approval_id": "$response.body#/items/0/id"}},
        ),
        (
            "prepare_decision",
            "200",
            "approve_approval",
            {"parameters": {"approval_id": "$response.body#/payload/approval_id"}},
        ),
        (
            "create_conversation",
            "201",
            "create_run",
            {"requestBody": {"conversation_id": "$response.body#/id"}},
        ),
        ("register_key", "201", "revoke_key", {"parameters": {"key_id": "$response.body#/id"}}),
        (
            "create_artifact",
            "200",
            "get_artifact_content",
            {"parameters": {"artifact_id": "$response.body#/id"}},
        ),
        (
            "list_conversation_events",
            "200",
            "get_event",
            {
                "parameters": {
                    "conversation_id": "$request.path.conversation_id",
                    "seq": "$response.body#/items/0/seq",
                }
            },
        ),
        (
            "register_mcp_server",
            "201",
            "refresh_mcp_server",
            {"parameters": {"name": "$response.body#/name"}},
        ),
        ("enrol_grant", "201", "suspend_grant", {"parameters": {"grant_id": "$response.body#/id"}}),
        ("put_skill", "200", "get_skill", {"parameters": {"name": "$response.body#/name"}}),
    ],
)
def test_an_answer_leads_to_what_may_follow_it(
    document: dict[str, Any], source: str, status: str, target: str, taken: dict[str, Any]
) -> None:
    _, operation = operations(document)[source]
    links = operation["responses"][status]["links"]
    assert links[target] == {"operationId": target} | taken


def test_what_has_no_answer_leads_nowhere(document: dict[str, Any]) -> None:
    _, operation = operations(document)["delete_agent"]
    assert "links" not in operation["responses"]["204"]


def test_every_link_gives_an_operation_what_it_takes(document: dict[str, Any]) -> None:
    known = operations(document)
    for source, _, link in links(document):
        path, target = known[link["operationId"]]
        parameters = {one.get("name") for one in target.get("parameters", ())}
        assert link.get("parameters", {}).keys() <= parameters, source
        segments = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        assert segments <= link.get("parameters", {}).keys(), source
        if "requestBody" in link:
            body = resolved(
                document, target["requestBody"]["content"]["application/json"]["schema"]
            )
            assert link["requestBody"].keys() <= body["properties"].keys(), source


def test_every_expression_names_something_of_the_answer(document: dict[str, Any]) -> None:
    for source, schema, link in links(document):
        values = (link.get("parameters", {}) | link.get("requestBody", {})).values()
        for expression in values:
            kind, _, pointer = expression.partition("#")
            if kind == "$response.body":
                assert names_something(document, schema, pointer), (source, expression)
            else:
                segment = expression.removeprefix("$request.path.")
                assert f"{{{segment}}}" in operations(document)[source][0], (source, expression)
