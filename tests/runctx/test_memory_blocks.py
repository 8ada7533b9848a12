"""The tier of the conversation, from what a store offers (run-context.md 3.4, 11.B)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from app.policy.taint import Trust
from app.runctx.memory import LLMContextPatch, MemoryBlocks
from app.runctx.projection import project_memory_blocks
from tests.runctx.remembered import NOON, turn

TAINTED = Trust.QUARANTINED_CONTENT


def test_c37_a_strategy_and_a_count_are_no_content() -> None:
    assert project_memory_blocks(LLMContextPatch(strategy="truncation", tokens=7)) is None


def test_c38_turns_and_a_summary() -> None:
    turns = [turn("a", "b", at=NOON, artifacts_shown=("art_1",)), turn("c", "d")]
    patch = LLMContextPatch(strategy="rolling_summary", summary="so far", recent_turns=turns)
    assert project_memory_blocks(patch) == MemoryBlocks(
        None,
        {
            "strategy": "rolling_summary",
            "recent_turns": [{"user": "a", "assistant": "b"}, {"user": "c", "assistant": "d"}],
            "summary": "so far",
        },
        Trust.TRUSTED_USER,
    )


def test_c39_only_turns_or_only_a_summary() -> None:
    only_turns = project_memory_blocks(LLMContextPatch(recent_turns=[turn("a\ud800", "b")]))
    only_summary = project_memory_blocks(LLMContextPatch(strategy="s", summary="x"))
    assert only_turns is not None
    assert only_summary is not None
    assert only_turns.conversation == {
        "strategy": "",
        "recent_turns": [{"user": "a\ufffd", "assistant": "b"}],
    }
    assert only_summary.conversation == {"strategy": "s", "recent_turns": [], "summary": "x"}


def test_c40_what_is_tainted_says_so() -> None:
    blocks = project_memory_blocks(
        LLMContextPatch(
            summary="x", summary_trust=TAINTED, recent_turns=[turn("a", "b", trust=TAINTED)]
        )
    )
    assert blocks is not None
    assert blocks.trust is TAINTED
    assert blocks.conversation == {
        "strategy": "",
        "recent_turns": [{"user": "a", "assistant": "b", "trust": "quarantined_content"}],
        "summary": "x",
        "summary_trust": "quarantined_content",
    }


def test_c44_a_shared_patch_projects_alike_however_many_ask() -> None:
    turns = [turn("a", "b")]
    patch = LLMContextPatch(recent_turns=turns)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(project_memory_blocks, patch) for _ in range(128)]
    first = asked[0].result()
    assert all(one.result() == first for one in asked)
    assert turns == [turn("a", "b")]
