"""What may be registered, what a name stands for, and the digest a definition has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from app.policy.consent import Consent
from app.policy.profile import Origin, ToolProfile
from app.policy.taint import Trust
from app.tools.builtin import builtin_tools
from app.tools.builtin.files_read import FILES_READ
from app.tools.http import OutboundHttp
from app.tools.registry import RegisteredTool, ToolRefused, ToolRegistry
from tests.tools.played import FixedClock

BUILTIN = ToolRegistry(builtin_tools(FixedClock(), OutboundHttp()))


@dataclass(frozen=True)
class Row:
    """A row of the table of built-in tools (service.md 3)."""

    name: str
    required: set[str]
    ingests: bool = False
    idempotent: bool = False
    asks: bool = False
    viable: bool = True


TABLE = [
    Row("clock_now", {"local-read"}),
    Row("files_list", {"local-read"}),
    Row("files_read", {"local-read"}),
    Row("files_write", {"local-read", "local-write"}, idempotent=True),
    Row("files_delete", {"local-read", "local-write"}, idempotent=True, asks=True),
    Row("artifact_read", {"local-read"}),
    Row("http_fetch", {"arbitrary-egress"}, ingests=True, idempotent=True),
    Row("http_post", {"arbitrary-egress", "mutate-external"}, ingests=True, asks=True),
    Row(
        "shell_exec",
        {"local-read", "local-write", "arbitrary-egress"},
        ingests=True,
        asks=True,
        viable=False,
    ),
    Row("skill_search", {"local-read"}),
    Row("skill_get", {"local-read"}),
    Row("skill_list", {"local-read"}),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_the_built_in_tools_require_and_mark_what_the_table_says(row: Row) -> None:
    tool = BUILTIN.get(row.name)
    assert tool is not None
    assert {capability.value for capability in tool.profile.required()} == row.required
    assert tool.profile.ingests_untrusted is row.ingests
    assert tool.idempotent is row.idempotent
    assert tool.is_session_approvable is row.idempotent
    assert (tool.consent is Consent.ASK) is row.asks
    assert tool.is_viable is row.viable


def test_the_table_names_every_built_in_tool() -> None:
    assert [tool.name for tool in BUILTIN.all()] == [row.name for row in TABLE]


def test_a_digest_covers_name_description_schema_and_annotations() -> None:
    # sha256 of {"annotations":{"destructive":false,"open_world":false,"read_only":true},
    # "description":"d","name":"n","schema":{"type":"object"}}
    tool = tool_named("n", description="d", parameters={"type": "object"})
    assert tool.definition_digest == DIGEST
    assert tool.spec.definition_digest == DIGEST
    changed = [
        replace(tool, name="m"),
        replace(tool, description="e"),
        replace(tool, parameters={"type": "object", "title": "t"}),
        replace(tool, profile=ToolProfile(Origin.LOCAL_SANDBOX, read_only=True, open_world=False)),
    ]
    # Of an MCP server's tool the annotations say where the server is.
    changed += [replace(tool, address=f"http https://{host}.example/mcp") for host in "ab"]
    assert len({other.definition_digest for other in changed} | {DIGEST}) == 7
    same = [replace(tool, title="other"), replace(tool, consent=Consent.ASK, why_not="no")]
    assert {other.definition_digest for other in same} == {DIGEST}


DIGEST = "506077592d0d2025e6c3dd51a7f2c93e686a8283e3b3cce22214c392635075e4"


def tool_named(name: str, **fields: Any) -> RegisteredTool:
    return replace(FILES_READ, name=name, **fields)


@dataclass(frozen=True)
class Case:
    id: str
    tool: RegisteredTool
    says: str


REFUSED = [
    Case("handoff", tool_named("__handoff_to"), "reserved"),
    Case("delegate", tool_named("__delegate_to"), "reserved"),
    Case("question", tool_named("ask_question"), "reserved"),
    Case("session", tool_named("t", session_approvable=True), "idempotent"),
    Case("schema", tool_named("t", parameters={"type": "thing"}), "no JSON Schema"),
    Case("no object", tool_named("t", parameters={"type": "string"}), "of type object"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_t134_what_could_not_be_held_is_refused_at_registration(case: Case) -> None:
    with pytest.raises(ToolRefused, match=case.says):
        ToolRegistry([case.tool])


def test_only_the_description_of_an_unregistered_tool_taints() -> None:
    own, foreign = tool_named("t"), tool_named("u", profile=ToolProfile(Origin.UNKNOWN))
    assert own.spec.trust is Trust.UNSPECIFIED
    assert foreign.spec.trust is Trust.QUARANTINED_CONTENT


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ToolRefused, match="twice"):
        ToolRegistry([tool_named("t"), tool_named("t")])


def test_an_entry_stands_for_a_tool_or_for_those_of_a_server() -> None:
    registry = ToolRegistry([tool_named("t"), tool_named("git__log", server="git")])
    for entry, name in {"t": "t", "git__log": "git__log", "git:*": "git__log"}.items():
        assert [tool.name for tool in registry.named(entry)] == [name]
    for entry in ["github:*", "gi:*", "git", "*", ":*", "shell", "ask_question", ""]:
        assert registry.named(entry) == ()
