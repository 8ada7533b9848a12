"""The links of the description: which operations take what an answer names (OpenAPI's Link Object).

A generated client learns from them what may follow a request, and a fuzzer which requests to chain.
They are derived: whatever names a resource leads to all that stands at or under its path, to the
lists that are narrowed by its id, and to the bodies that name it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Operations = Mapping[str, tuple[str, dict[str, Any]]]

# The path of a resource: the operations whose answers name one, and where in the answer.
_NAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "/v1/agents/{name}": {"put_agent": "/name", "list_agents": "/items/0/name"},
    "/v1/approvals/{approval_id}": {
        "list_approvals": "/items/0/id",
        "get_run": "/pause/approvals/0/id",
        "prepare_decision": "/payload/approval_id",
    },
    "/v1/artifacts/{artifact_id}": {"create_artifact": "/id", "list_artifacts": "/items/0/id"},
    "/v1/conversations/{conversation_id}": {
        "create_conversation": "/id",
        "create_run": "/conversation_id",
        "list_conversations": "/items/0/id",
    },
    "/v1/conversations/{conversation_id}/events/{seq}": {
        "list_conversation_events": "/items/0/seq",
    },
    "/v1/conversations/{conversation_id}/session-approvals/{tool}": {
        "list_session_approvals": "/items/0/tool",
    },
    "/v1/grants/{grant_id}": {"enrol_grant": "/id", "list_grants": "/items/0/id"},
    "/v1/keys/{key_id}": {"register_key": "/id", "list_keys": "/items/0/id"},
    "/v1/mcp-servers/{name}": {
        "register_mcp_server": "/name",
        "list_mcp_servers": "/items/0/name",
    },
    "/v1/passkeys/{passkey_id}": {"register_passkey": "/id", "list_passkeys": "/items/0/id"},
    "/v1/questions/{question_id}": {
        "list_questions": "/items/0/id",
        "get_run": "/pause/questions/0/id",
    },
    "/v1/runs/{run_id}": {"create_run": "/id", "list_runs": "/items/0/id"},
    "/v1/skills/{name}": {
        "put_skill": "/name",
        "list_skills": "/items/0/name",
        "import_skills": "/items/0/name",
    },
}
# The path of a resource: the bodies and queries that name one, and the member that does.
_TAKEN: Final[Mapping[str, Mapping[str, str]]] = {
    "/v1/agents/{name}": {"create_run": "agent", "prepare_grant": "agent"},
    "/v1/conversations/{conversation_id}": {"create_run": "conversation_id"},
}


def link(document: dict[str, Any]) -> None:
    """Give the answers of a whole description their links."""
    operations = {
        operation["operationId"]: (path, operation)
        for path, methods in document["paths"].items()
        for operation in methods.values()
    }
    for resource, sources in _NAMED.items():
        for source, pointer in sources.items():
            for target, taken in _following(resource, source, pointer, operations):
                _add(operations[source][1], target, taken)


def _following(
    resource: str, source: str, pointer: str, operations: Operations
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The operations that take what `source` names at `pointer`, each with what it takes."""
    named = f"$response.body#{pointer}"
    name = resource.rpartition("{")[2].removesuffix("}")
    known = _path_of(operations[source][0]) | {name: named}
    for target, (path, operation) in operations.items():
        wanted = _parameters(path)
        if path.startswith(resource) and wanted <= known.keys():
            yield target, {"parameters": {one: known[one] for one in sorted(wanted)}}
        elif name in _queries(operation):
            yield target, {"parameters": {name: named}}
    for target, member in _TAKEN.get(resource, {}).items():
        yield target, {"requestBody": {member: named}}


def _path_of(path: str) -> dict[str, str]:
    return {name: f"$request.path.{name}" for name in _parameters(path)}


def _parameters(path: str) -> set[str]:
    return {part[1:-1] for part in path.split("/") if part.startswith("{")}


def _queries(operation: Mapping[str, Any]) -> set[str]:
    return {one["name"] for one in operation.get("parameters", ()) if one.get("in") == "query"}


def _add(operation: dict[str, Any], target: str, taken: Mapping[str, Any]) -> None:
    """Add a link to every success; what one answer names twice over goes into one link."""
    for status, response in operation["responses"].items():
        if status.startswith("2") and "content" in response:
            links = response.setdefault("links", {})
            one = links.setdefault(target, {"operationId": target})
            for kind, values in taken.items():
                one[kind] = one.get(kind, {}) | values
