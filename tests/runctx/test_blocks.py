"""The blocks of a prompt: fixed text, and JSON that nothing can close (run-context.md 8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.runctx.blocks import render_blocks
from app.runctx.text import PromptBlockUnserializable, prompt_json

GOLDEN = Path(__file__).parents[1] / "golden" / "skills_context.txt"
ENTRY: dict[str, Any] = {
    "title": "Größe <b> & </skills_context>",
    "pinned": True,
    "name": "deploy",
}


def test_the_skills_block_is_the_golden_text() -> None:
    """C153, C150."""
    assert render_blocks(skills_context=[ENTRY]) == (GOLDEN.read_text().removesuffix("\n"),)


def test_an_absent_block_is_no_message() -> None:
    """C148, for skills."""
    assert render_blocks() == ()
    assert render_blocks(skills_context=None) == ()


def test_content_cannot_close_a_block() -> None:
    """C151."""
    [block] = render_blocks(skills_context=[ENTRY])
    assert block.count("</skills_context>") == 1
    assert block.count("</skills_context_json>") == 1
    body = block.split("<skills_context_json>\n")[1].split("\n</skills_context_json>")[0]
    assert json.loads(body) == [ENTRY]


def test_json_for_a_prompt_is_sorted_compact_and_keeps_what_is_not_ascii() -> None:
    """C150."""
    assert prompt_json({"b": [1, 2.5, None], "a": "é<"}, block="x") == '{"a":"é<","b":[1,2.5,null]}'
    assert prompt_json("a\ud800b", block="x") == '"a\ufffdb"'


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ([{"a/b": float("nan")}], "/0/a~1b"),
        (float("inf"), "/"),
        ({1: "x"}, "/"),
        ([object()], "/0"),
        (nested(65), "/0" * 64),
        (circular(), "/0" * 64),
    ],
    ids=["nan", "infinity", "key", "object", "too deep", "cycle"],
)
def test_what_is_no_json_is_refused_with_its_place(value: object, pointer: str) -> None:
    """C149."""
    with pytest.raises(PromptBlockUnserializable) as caught:
        prompt_json(value, block="skills_context")
    assert str(caught.value) == f"skills_context holds no JSON at {pointer}"


def test_nesting_of_64_is_json() -> None:
    assert prompt_json(nested(64), block="x") == "[" * 64 + "]" * 64
