"""Whether an agent holds together (service.md 3): each fault with the pointer of its member."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import ValidationError

from app.service.agents.check import Surroundings, faults_of, lowered_guards
from app.service.agents.spec import AgentSpec


class PlayedModels:
    """The script, and a compatible server, which has no search."""

    def knows(self, model: str) -> bool:
        return model in {"script", "compatible:local"}

    def can_search(self, model: str) -> bool:
        return model == "script"


AROUND = Surroundings(
    tools=frozenset({"http_post", "files_read", "github__list"}),
    servers=frozenset({"github"}),
    agents=frozenset({"researcher"}),
    models=PlayedModels(),
)


def spec(**members: Any) -> AgentSpec:
    return AgentSpec.model_validate({"model": "script"} | members)


@dataclass(frozen=True)
class Case:
    id: str
    members: dict[str, Any]
    pointers: tuple[str, ...] = ()


def rule(**members: Any) -> dict[str, Any]:
    return {"dispatch_rules": [{"tool": "http_post", **members}]}


SOUND = [
    Case("the least", {}),
    Case("tools and a server", {"tools": ["http_post", "github:*"]}),
    Case("questions", {"tools": ["http_post", "ask_question"]}),
    Case("a rule for questions", {"approval": {"ask_question": "allow"}}),
    Case("rules for what may come", {"approval": {"jira:*": "veto", "jira__open": "ask"}}),
    Case("a search", {"native_search": True}),
    Case("a server of one's own", {"model": "compatible:local"}),
    Case("a rule for all", {"approval": {"*": "allow"}, "tools": ["files_read"]}),
    Case("two programs", {"approvers": {"roles": [], "programs": ["a", "b"], "count": 3}}),
    Case("many by role", {"approvers": {"roles": ["lead"], "allow_self": False, "count": 9}}),
    Case("resilience within the base", {"grant_policy": {"taint_resilient": ["mutate-external"]}}),
    Case("a schema", {"output_schema": {"type": "object", "$defs": {"a": {}}}}),
    Case("an inner reference", {"output_schema": {"$ref": "#/$defs/a", "$defs": {"a": {}}}}),
    Case("an object or nothing", {"output_schema": {"type": ["object", "null"]}}),
    Case(
        "a deny rule with a condition",
        rule(action="deny", when={"pointer": "/url", "pattern": "x"}),
    ),
    Case("a rewrite", rule(action="rewrite", set={"/body": "{}"})),
    Case("a redaction", rule(action="redact", pattern="sk-[a-z]+", text="[key]")),
    Case("an injection of nothing", rule(action="inject", text="")),
]

FAULTY = [
    Case("a model", {"model": "nobody:x"}, ("/model",)),
    Case("no model to search", {"model": "nobody:x", "native_search": True}, ("/model",)),
    Case(
        "a search of a model without one",
        {"model": "compatible:local", "native_search": True},
        ("/native_search",),
    ),
    Case("a tool", {"tools": ["http_post", "http_pst"]}, ("/tools/1",)),
    Case(
        "a pattern that would take all memory",
        rule(action="redact", pattern="a{1000000000}", text=""),
        ("/dispatch_rules/0/pattern",),
    ),
    Case(
        "a schema whose pattern would take all memory",
        {"output_schema": {"properties": {"a": {"pattern": "(?:a{9999}){9999}"}}}},
        ("/output_schema",),
    ),
    Case(
        "a schema beyond 64 KiB",
        {"output_schema": {"description": "x" * 65536}},
        ("/output_schema",),
    ),
    Case("a tool twice", {"tools": ["http_post", "http_post"]}, ("/tools/1",)),
    Case("a server", {"tools": ["jira:*"]}, ("/tools/0",)),
    Case("a tool of a server that is not there", {"tools": ["jira__open"]}, ("/tools/0",)),
    Case("a misspelt rule", {"approval": {"http_pst": "veto"}}, ("/approval/http_pst",)),
    Case("a rule by prefix", {"approval": {"http_*": "veto"}}, ("/approval/http_*",)),
    Case("a rule with a slash", {"approval": {"a/b~": "ask"}}, ("/approval/a~1b~0",)),
    Case("an assurance", {"assurance": {"tools": {"x": "key"}}}, ("/assurance/tools/x",)),
    Case(
        "nobody could approve",
        {"approvers": {"roles": [], "programs": [], "allow_self": False}},
        ("/approvers",),
    ),
    Case(
        "too few could approve",
        {"approvers": {"roles": [], "programs": ["a"], "count": 3}},
        ("/approvers/count",),
    ),
    Case("a base with admin", {"grant_policy": {"base": ["grant-admin"]}}, ("/grant_policy",)),
    Case(
        "resilience beyond the base",
        {"grant_policy": {"base": ["local-read"], "taint_resilient": ["local-write"]}},
        ("/grant_policy",),
    ),
    Case(
        "a rule of a tool",
        {"dispatch_rules": [{"tool": "x", "action": "deny"}]},
        ("/dispatch_rules/0/tool",),
    ),
    Case(
        "rules that hold no question",
        {
            "approval": {"ask_question": "veto"},
            "assurance": {"tools": {"ask_question": "passkey"}},
            "dispatch_rules": [{"tool": "ask_question", "action": "deny"}],
        },
        ("/approval/ask_question", "/assurance/tools/ask_question", "/dispatch_rules/0/tool"),
    ),
    Case(
        "a pattern",
        rule(action="redact", pattern="(", text=""),
        ("/dispatch_rules/0/pattern",),
    ),
    Case(
        "a condition's pattern",
        rule(action="ask", when={"pointer": "", "pattern": "["}),
        ("/dispatch_rules/0/when/pattern",),
    ),
    Case(
        "a redaction of nothing",
        rule(action="redact", text="x"),
        ("/dispatch_rules/0",),
    ),
    Case("a rewrite to nothing", rule(action="rewrite"), ("/dispatch_rules/0",)),
    Case(
        "a denial with a text",
        rule(action="deny", text="x"),
        ("/dispatch_rules/0/text",),
    ),
    Case(
        "a rewrite of no member",
        rule(action="rewrite", set={"body": 1}),
        ("/dispatch_rules/0/set",),
    ),
    Case(
        "a rewrite of everything",
        rule(action="rewrite", set={"": {}}),
        ("/dispatch_rules/0/set",),
    ),
    Case(
        "a condition's pointer",
        rule(action="deny", when={"pointer": "/a~2", "pattern": "x"}),
        ("/dispatch_rules/0/when/pointer",),
    ),
    Case("a delegate", {"delegates": [{"agent": "nobody"}]}, ("/delegates/0/agent",)),
    Case(
        "a delegate twice",
        {"delegates": [{"agent": "researcher"}, {"agent": "researcher"}]},
        ("/delegates/1/agent",),
    ),
    Case(
        "files of another place",
        {
            "delegates": [
                {"agent": "researcher", "share_in": ["a", "/", "../b", "a/../..", "/etc", "..a"]}
            ]
        },
        tuple(f"/delegates/0/share_in/{at}" for at in (1, 2, 3, 4)),
    ),
    Case(
        "a schema that is none",
        {"output_schema": {"type": 7}},
        ("/output_schema",),
    ),
    Case(
        "a remote reference",
        {"output_schema": {"$ref": "https://example.com/s.json"}},
        ("/output_schema",),
    ),
    Case(
        "an answer that is no object",
        {"output_schema": {"type": ["array", "null"]}},
        ("/output_schema/type",),
    ),
    Case("several at once", {"model": "x", "tools": ["y"]}, ("/model", "/tools/0")),
]


@pytest.mark.parametrize("case", SOUND, ids=lambda case: case.id)
def test_an_agent_that_holds_has_no_fault(case: Case) -> None:
    assert faults_of(spec(**case.members), AROUND) == ()


@pytest.mark.parametrize("case", FAULTY, ids=lambda case: case.id)
def test_what_does_not_hold_is_named(case: Case) -> None:
    found = faults_of(spec(**case.members), AROUND)
    assert tuple(fault.pointer for fault in found) == case.pointers


def test_c116_recall_needs_a_database_with_vectors() -> None:
    """C116: semantic mode without them is refused when the agent is written."""
    recalling = spec(memory={"retrieval": "semantic"})
    [fault] = faults_of(recalling, AROUND)
    assert (fault.pointer, "pgvector" in fault.detail) == ("/memory/retrieval", True)
    assert faults_of(recalling, replace(AROUND, recalls=True)) == ()


@pytest.mark.parametrize("member", [{"retrieval": "fuzzy"}, {"top_k": -1}])
def test_c116_an_unknown_mode_and_a_negative_limit_are_no_agent(member: dict[str, Any]) -> None:
    """C116: an unknown mode, `top_k` -1."""
    with pytest.raises(ValidationError):
        spec(memory=member)


@pytest.mark.parametrize(
    ("strategy", "history", "pointers"),
    [
        ("none", "conversation", ()),
        ("none", "run", ()),
        ("truncation", "run", ()),
        ("truncation", None, ()),
        ("truncation", "conversation", ("/memory/history",)),
        ("rolling_summary", "conversation", ("/memory/history",)),
    ],
)
def test_c126_the_same_turns_do_not_reach_the_model_twice(
    strategy: str, history: str | None, pointers: tuple[str, ...]
) -> None:
    found = faults_of(spec(memory={"strategy": strategy, "history": history}), AROUND)
    assert tuple(fault.pointer for fault in found if fault.pointer == "/memory/history") == pointers


@pytest.mark.parametrize(
    ("member", "is_sound"),
    [
        ({"max_messages": 20}, False),
        ({"max_messages": 21}, True),
        ({"keep_messages": 80}, False),
        ({"max_messages": 8, "keep_messages": 7}, True),
        ({"max_messages": 20, "enabled": False}, True),
    ],
)
def test_a_history_is_not_condensed_to_more_than_it_may_have(
    member: dict[str, Any], is_sound: bool
) -> None:
    found = faults_of(spec(memory={"compaction": member}), AROUND)
    expected = () if is_sound else ("/memory/compaction/keep_messages",)
    assert tuple(fault.pointer for fault in found) == expected


LOWERED = [
    Case("nothing", {}),
    Case("a false word", {"attachments_policy": {"uploads_trusted": False}}),
    Case(
        "resilience",
        {"grant_policy": {"taint_resilient": ["mutate-external"]}},
        ("/grant_policy/taint_resilient",),
    ),
    Case(
        "trusted uploads",
        {"attachments_policy": {"uploads_trusted": True}},
        ("/attachments_policy/uploads_trusted",),
    ),
    Case(
        "a trusted caller's memory",
        {"memory": {"caller_memory_trusted": True}},
        ("/memory/caller_memory_trusted",),
    ),
]


@pytest.mark.parametrize("case", LOWERED, ids=lambda case: case.id)
def test_what_lowers_the_guard_is_named(case: Case) -> None:
    assert lowered_guards(spec(**case.members)) == case.pointers
