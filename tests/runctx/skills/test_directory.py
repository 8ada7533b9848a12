"""Which skills a directory lists, and in which order (run-context.md 6)."""

from __future__ import annotations

from typing import Any

import pytest

from app.policy.taint import Trust
from app.runctx.skill import SkillCard, SkillSettings
from app.runctx.skills.directory import allowed, directory_entries, directory_order, view_of
from tests.runctx.skills.shelf import card, seeing


def names(cards: Any) -> list[str]:
    return [one.name for one in cards]


def many(count: int) -> list[SkillCard]:
    return [card(f"skill-{place:02}", minute=place) for place in range(count)]


def test_a_directory_has_thirty_entries_unless_told_otherwise() -> None:
    """C127."""
    assert len(directory_entries(many(40), seeing(), SkillSettings())) == 30
    assert len(directory_entries(many(40), seeing(), SkillSettings(max_entries=0))) == 30
    assert len(directory_entries(many(40), seeing(), SkillSettings(max_entries=1))) == 1
    assert SkillSettings().selection == "pinned_then_recent"


@pytest.mark.parametrize("entries", [-1, 201])
def test_a_cut_out_of_bounds_is_an_error(entries: int) -> None:
    """C127."""
    with pytest.raises(ValueError, match="max_entries"):
        SkillSettings(max_entries=entries)


@pytest.mark.parametrize("selection", ["pinned_then_top", "best"])
def test_an_unknown_selection_is_an_error(selection: Any) -> None:
    """C127: uses are not counted yet, so nothing can be selected by them."""
    with pytest.raises(ValueError, match="selection"):
        SkillSettings(selection=selection)


def test_the_newest_come_first_and_of_one_moment_by_name() -> None:
    """C129."""
    cards = [card("b"), card("a"), card("old", minute=-1), card("new", minute=1)]
    assert names(directory_order(cards)) == ["new", "a", "b", "old"]


def test_operator_pins_come_first_as_declared_then_what_its_author_pinned() -> None:
    """C130."""
    cards = [
        card("new", minute=9),
        card("truly", extra={"pinned": True}),
        card("text", extra={"pinned": "true"}, minute=2),
        card("number", extra={"pinned": 1}, minute=1),
        card("one", minute=-1),
        card("two", minute=-2),
    ]
    order = directory_order(cards, ["two", "", "unknown", "one", "two"])
    assert names(order) == ["two", "one", "truly", "new", "text", "number"]
    assert [view_of(one, ["two"]).pinned for one in order[:4]] == [True, False, True, False]


def test_pins_may_fill_a_directory() -> None:
    """C131."""
    pins = tuple(f"skill-{place:02}" for place in range(30))
    listed = directory_entries(many(40), seeing(), SkillSettings(max_entries=20, pinned=pins))
    assert names(listed) == list(pins[:20])


@pytest.mark.parametrize(
    "head",
    [
        {"required_tools": ("http_fetch", "shell_exec")},
        {"required_namespaces": ("github",)},
        {"required_tags": ("finance",)},
    ],
    ids=["tools", "namespaces", "tags"],
)
def test_a_pin_is_no_way_past_the_filter(head: dict[str, Any]) -> None:
    """C132: each of them denies alone, and nothing allowed denies whatever is required."""
    pinned = [card("pinned", extra={"pinned": True}, **head), card("free")]
    settings = SkillSettings(pinned=("pinned",))
    for capability in (seeing("http_fetch"), seeing()):
        assert names(directory_entries(pinned, capability, settings)) == ["free"]
    wide = seeing(
        "http_fetch",
        "shell_exec",
        namespaces=frozenset({"github"}),
        tags=frozenset({"finance"}),
    )
    assert names(directory_entries(pinned, wide, settings)) == ["pinned", "free"]


def test_allowed_tools_of_a_folder_hide_nothing() -> None:
    """C141."""
    told = card("free", extra={"allowed-tools": "shell_exec"}, tags=("any",))
    assert allowed([told], seeing()) == [told]


def test_untrusted_skills_are_not_listed() -> None:
    poisoned = card("poisoned", trust=Trust.QUARANTINED_CONTENT, extra={"pinned": True})
    settings = SkillSettings(pinned=("poisoned",))
    assert names(directory_entries([poisoned, card("free")], seeing(), settings)) == ["free"]
