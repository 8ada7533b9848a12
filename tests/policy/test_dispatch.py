"""Which tools a dispatch rule is about, and whether there are any rules."""

from __future__ import annotations

import pytest

from app.policy.dispatch import AskFirst, CallRule, CallRules, ResultRule


@pytest.mark.parametrize(
    ("pattern", "tool", "server", "covers"),
    [
        ("http_post", "http_post", None, True),
        ("http", "http_post", None, False),
        ("*", "http_post", None, True),
        ("crm:*", "crm__send", "crm", True),
        ("crm:*", "crm__send", None, False),
        ("cr:*", "crm__send", "crm", False),
        ("crm__send", "crm__send", "crm", True),
        ("None:*", "http_post", None, False),
    ],
)
def test_a_rule_is_about_a_tool_by_its_name_its_server_or_all(
    pattern: str, tool: str, server: str | None, covers: bool
) -> None:
    assert CallRule("r", pattern, AskFirst()).covers(tool, server) is covers
    assert ResultRule("r", pattern, "x", "").covers(tool, server) is covers


def test_rules_dispatch_where_there_is_one_of_any_kind() -> None:
    rule = CallRule("r", "*", AskFirst())
    assert not CallRules().dispatches
    assert CallRules(before=(rule,)).dispatches
    assert CallRules(present=(rule,)).dispatches
    assert CallRules(after=(ResultRule("r", "*", "x", ""),)).dispatches
