"""What a person is shown before they sign holds no character that they cannot see (F80)."""

from __future__ import annotations

from typing import Any

import pytest

from app.cli.demo.screen import Screen
from app.cli.visible import visible
from app.engine.json.arguments import Arguments, parse_arguments
from app.service.clock import SystemClock

HIDING = {
    "\u202e": "\\u202e",
    "\u200b": "\\u200b",
    "\u2066": "\\u2066",
    "\ufeff": "\\ufeff",
    "\u00ad": "\\u00ad",
    "\u00a0": "\\u00a0",
    "\u2028": "\\u2028",
    "\x1b": "\\u001b",
    "\n": "\\u000a",
    "\U000e0041": "\\U000e0041",
}


@pytest.mark.parametrize(("character", "shown"), HIDING.items(), ids=list(HIDING.values()))
def test_f80_what_hides_is_shown_as_an_escape(character: str, shown: str) -> None:
    assert visible(f"a{character}b") == f"a{shown}b"


@pytest.mark.parametrize("text", ["", "a b", "Žluťoučký kůň", "漢字 ✓ 😀", '{"path":"a/b"}'])
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_f80_a_word_composed_and_decomposed_has_two_digests() -> None:
    composed, decomposed = (parse_arguments(f'{{"to":"caf{e}"}}') for e in ("\u00e9", "e\u0301"))
    assert isinstance(composed, Arguments)
    assert isinstance(decomposed, Arguments)
    assert composed.sha256 != decomposed.sha256


def test_f80_the_card_hides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    card: dict[str, Any] = {
        "id": "appr_1",
        "tool": "http_post",
        "risk": {"destination": "shop.example"},
        "required_capabilities": ["arbitrary-egress"],
        "reason": "",
        "args_canonical": '{"to":"\u202eecila\u200b"}',
        "args_sha256": "a" * 64,
        "tool_definition_digest": "d" * 64,
        "expires_at": None,
    }
    Screen(SystemClock(), width=100).card(card)
    shown = capsys.readouterr().out
    assert '{"to":"\\u202eecila\\u200b"}' in shown
    assert "\u202e" not in shown
    assert "\u200b" not in shown
