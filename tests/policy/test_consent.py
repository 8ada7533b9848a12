"""Own name, then the server exactly, then the star (service.md 3, "What asks")."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.policy.consent import Consent, ConsentRules, stricter

RULES = ConsentRules({"git__push": Consent.VETO, "git:*": Consent.ASK, "*": Consent.ALLOW})


@dataclass(frozen=True)
class Case:
    id: str
    tool: str
    server: str | None
    rule: Consent


CASES = (
    Case("own-name-first", "git__push", "git", Consent.VETO),
    Case("own-name-without-a-server", "git__push", None, Consent.VETO),
    Case("then-the-server", "git__log", "git", Consent.ASK),
    Case("a-server-is-no-prefix", "github__log", "github", Consent.ALLOW),
    Case("a-name-that-looks-like-a-server", "git__log", None, Consent.ALLOW),
    Case("then-the-star", "clock_now", None, Consent.ALLOW),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_closest_rule_wins(case: Case) -> None:
    assert RULES.rule_for(case.tool, case.server) is case.rule


def test_a_tool_nobody_wrote_a_rule_for_has_none() -> None:
    assert ConsentRules({"git:*": Consent.ASK}).rule_for("clock_now") is None


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (Consent.ALLOW, Consent.ASK, Consent.ASK),
        (Consent.ASK, Consent.VETO, Consent.VETO),
        (Consent.VETO, Consent.ALLOW, Consent.VETO),
        (Consent.ALLOW, Consent.ALLOW, Consent.ALLOW),
    ],
)
def test_the_stricter_of_two_rules_allows_less(a: Consent, b: Consent, expected: Consent) -> None:
    assert stricter(a, b) is expected
    assert stricter(b, a) is expected
