"""The agent document: its defaults as service.md 3 shows them, its strictness, its digest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from app.policy.capability import Capability
from app.service.agents.spec import AgentSpec, CapabilityName, digest_of

DEFAULTS = {
    "model": "script",
    "instructions": "",
    "tools": [],
    "approval": {},
    "approvers": {"roles": ["approver"], "programs": [], "allow_self": True, "count": 1},
    "assurance": {"default": "key", "tools": {}},
    "approval_ttl_s": 86400,
    "question_ttl_s": 86400,
    "max_steps": None,
    "limits": {"max_tokens": None, "deadline_s": None},
    "execution_ceiling": None,
    "grant_policy": {"base": None, "taint_resilient": []},
    "dispatch_rules": [],
    "escalate_sandbox_denials": False,
    "escape_hatch": False,
    "native_search": False,
    "cache_hint": "none",
    "delegates": [],
    "delegate_max_fanout": None,
    "delegate_turn_budget": None,
    "output_schema": None,
    "memory": {},
    "skills": {},
    "attachments_policy": {},
    "metadata": {},
}


def test_only_the_model_is_required_and_the_rest_is_shown() -> None:
    assert AgentSpec.model_validate({"model": "script"}).document() == DEFAULTS


def test_the_document_reads_back_as_the_same_agent() -> None:
    spec = AgentSpec.model_validate({"model": "script", "tools": ["http_post"]})
    assert AgentSpec.model_validate(spec.document()) == spec


def test_the_digest_is_that_of_the_document_however_it_was_written() -> None:
    short = AgentSpec.model_validate({"model": "script"})
    assert digest_of(short) == digest_of(AgentSpec.model_validate(DEFAULTS))
    assert digest_of(short) != digest_of(AgentSpec.model_validate({"model": "openai:x"}))
    # Made elsewhere: the document with sorted keys and no spaces, through sha256sum.
    assert digest_of(short) == "db2c6d03248682f412077371f588eb59e264a98130c05da4658d0ebe08541986"


def test_every_capability_has_its_name() -> None:
    assert set(get_args(CapabilityName)) == {str(one) for one in Capability}


@dataclass(frozen=True)
class Case:
    id: str
    members: dict[str, Any]


REFUSED = [
    Case("an unknown member", {"surprise": 1}),
    Case("an unknown member inside", {"approvers": {"count": 1, "quorum": 2}}),
    Case("a number as text", {"max_steps": "3"}),
    Case("a truth as a number", {"allow": 1, "escape_hatch": 1}),
    Case("no steps", {"max_steps": 0}),
    Case("too many steps", {"max_steps": 1001}),
    Case("another consent", {"approval": {"http_post": "maybe"}}),
    Case("another assurance", {"assurance": {"default": "password"}}),
    Case("another capability", {"execution_ceiling": ["everything"]}),
    Case(
        "a long pattern",
        {"dispatch_rules": [{"tool": "x", "action": "redact", "pattern": "a" * 201, "text": ""}]},
    ),
    Case(
        "no pointer",
        {
            "dispatch_rules": [
                {"tool": "x", "action": "deny", "when": {"pointer": "a", "pattern": "b"}}
            ]
        },
    ),
    Case("a time before now", {"approval_ttl_s": -1}),
    Case("a name with a control character", {"tools": ["a\u0000"]}),
    Case("metadata over 16 KiB", {"metadata": {"a": "x" * 16_384}}),
    Case("nobody to count", {"approvers": {"count": 0}}),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_a_member_of_another_shape_is_refused(case: Case) -> None:
    with pytest.raises(ValidationError):
        AgentSpec.model_validate({"model": "script"} | case.members)


def test_a_pattern_of_two_hundred_characters_is_taken() -> None:
    rule = {"tool": "x", "action": "redact", "pattern": "a" * 200, "text": ""}
    spec = AgentSpec.model_validate({"model": "script", "dispatch_rules": [rule]})
    assert spec.dispatch_rules[0].pattern == "a" * 200
