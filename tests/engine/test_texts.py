from __future__ import annotations

import pytest

from app.engine import texts

AGAIN = "Call `final_result` again with corrected arguments."
MISSING = "The arguments of `final_result` are missing required field(s): a, b."
PROBLEMS = "The arguments of `final_result` do not match the schema: /c: type; /d: enum."


def test_the_fixed_texts_are_exact() -> None:
    assert texts.NOT_EXECUTED == "Not executed: another tool call in the same turn was invalid."
    assert texts.INTERRUPTED == (
        "Not completed: the run stopped before this tool call returned a result."
    )
    assert texts.malformed("add", "invalid JSON") == (
        "The arguments of tool `add` were not a JSON object: invalid JSON. "
        "Call `add` again with a JSON object as its arguments."
    )
    assert texts.output_text("final_result") == (
        "Give the final answer by calling the `final_result` tool with the structured result "
        "as its arguments, not as plain text."
    )


@pytest.mark.parametrize(
    ("missing", "problems", "expected"),
    [
        (("a", "b"), (), f"{MISSING} {AGAIN}"),
        ((), ("/c: type", "/d: enum"), f"{PROBLEMS} {AGAIN}"),
        (("a", "b"), ("/c: type", "/d: enum"), f"{MISSING} {PROBLEMS} {AGAIN}"),
    ],
)
def test_the_feedback_names_what_is_missing_and_what_is_wrong(
    missing: tuple[str, ...], problems: tuple[str, ...], expected: str
) -> None:
    """A36, A188"""
    found = texts.output_feedback("final_result", missing=missing, problems=problems)
    assert found == expected
