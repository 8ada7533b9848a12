"""What the text of a skill does not tell a run (run-context.md 6)."""

from __future__ import annotations

import pytest

from app.runctx.skills.redaction import Redaction
from tests.runctx.skills.shelf import skill

HIDDEN = Redaction(frozenset({"email", "github__create_issue", "github__create"}))
PERSONAL = Redaction(personal=True)
GONE = "a tool that is not available here"


def test_whole_words_that_name_a_hidden_tool_are_replaced() -> None:
    """C137."""
    assert HIDDEN.text("Use email, not emails.") == f"Use {GONE}, not emails."
    assert HIDDEN.text("call github__create_issue") == f"call {GONE}"
    assert HIDDEN.text("my_email stays") == "my_email stays"


def test_every_text_of_a_skill_is_redacted_and_its_name_is_not() -> None:
    told = HIDDEN.skill(
        skill("email", steps=("email",), description="email", preconditions=("email",))
    )
    assert told.card.name == "email"
    assert told.card.head.trigger == f"When to {GONE}"
    assert (told.body.description, told.body.steps, told.body.preconditions) == (
        GONE,
        (GONE,),
        (GONE,),
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("write to bob@example.com now", "write to [REDACTED-PII] now"),
        ("get /x?user=bob&id=7 and go", "get /x?[REDACTED-PII] and go"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer [REDACTED-PII]"),
        ("call +49 30 1234567.", "call [REDACTED-PII]."),
        ("call (030) 1234-567", "call [REDACTED-PII]"),
        ("call +49301234567", "call [REDACTED-PII]"),
        ("3.11 on 2026-11-29, why? Because", "3.11 on 2026-11-29, why? Because"),
    ],
)
def test_the_second_pass_takes_out_what_names_people(text: str, told: str) -> None:
    """C137."""
    assert PERSONAL.text(text) == told


def test_nothing_is_taken_out_unasked() -> None:
    assert Redaction().text("email bob@example.com") == "email bob@example.com"


def test_no_text_takes_long() -> None:
    for hostile in (
        "a." * 50_000,
        "1 " * 50_000,
        "?" + "a" * 100_000,
        "@" * 100_000,
        "a-@" * 30_000,
    ):
        PERSONAL.text(hostile)
