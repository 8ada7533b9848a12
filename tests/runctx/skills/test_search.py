"""How a search ranks skills (run-context.md 6)."""

from __future__ import annotations

from app.runctx.skills.search import fused, ranked
from tests.runctx.skills.shelf import card

CARDS = [card(name) for name in ("deploy", "deploy-web", "re-deploy", "release", "audit")]


def test_names_come_before_texts() -> None:
    """C138: an exact name is 1.0 and first; without an embedder full text alone answers."""
    found = ranked(" DEPLOY ", CARDS, ["deploy", "release"])
    assert [(one.name, score, path) for one, score, path in found] == [
        ("deploy", 1.0, "exact"),
        ("deploy-web", 0.9, "prefix"),
        ("re-deploy", 0.85, "name"),
        ("release", 0.7871, "text"),
    ]


def test_a_place_by_text_counts_among_what_may_be_seen() -> None:
    found = ranked("ship it", CARDS, ["hidden", "audit", "release"])
    assert [(one.name, score) for one, score, _ in found] == [("audit", 0.8), ("release", 0.7871)]


def test_scores_by_text_fall_from_four_fifths() -> None:
    assert fused([1], rankings=1) == 0.8
    assert fused([61], rankings=1) == 0.4033


def test_equal_scores_go_by_name() -> None:
    found = ranked("deploy-", [card("deploy-b"), card("deploy-a")], [])
    assert [one.name for one, _, _ in found] == ["deploy-a", "deploy-b"]


def test_text_and_meaning_are_fused_by_their_places() -> None:
    """First in both is 0.80. Second and third: 0.80 * (1/62 + 1/63) * 61/2; second alone: half."""
    found = ranked("ship it", CARDS, ["release", "audit"], ["release", "deploy", "audit"])
    assert [(one.name, score, path) for one, score, path in found] == [
        ("release", 0.8, "hybrid"),
        ("audit", 0.7808, "hybrid"),
        ("deploy", 0.3935, "hybrid"),
    ]


def test_c138_an_exact_name_is_first_with_an_embedder_too() -> None:
    """C138: given an exact name, then score 1.0 and first."""
    found = ranked("audit", CARDS, ["release"], ["release", "audit"])
    assert [(one.name, score, path) for one, score, path in found][:2] == [
        ("audit", 1.0, "exact"),
        ("release", 0.8, "hybrid"),
    ]
