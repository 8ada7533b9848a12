"""What a run remembers: which turns come, whose they are, and what is an error (11.A)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from app.errors import IdentityRequired
from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.memory import (
    EmbedderMismatch,
    LLMContextPatch,
    RecallReport,
    RecallSettings,
    SearchResult,
)
from app.runctx.projection import project_memory_blocks
from app.runctx.text import prompt_json
from tests.runctx.remembered import ALICE, RECALL, fetched, hit, recalled, turn
from tests.support.played.memory import KeptMemory, OfferedMemory

OFF = RecallSettings()
WINDOW = LLMContextPatch(strategy="truncation", recent_turns=[turn("before", "so")])


async def test_c1_without_recall_there_is_the_projection_of_the_patch_alone() -> None:
    store = KeptMemory(window=3)
    await store.add_turn(ALICE, turn("one", "eins"))
    fetch = await fetched(store, recall=OFF)
    blocks, projected = fetch.blocks, project_memory_blocks(await store.get_llm_context(ALICE))
    assert blocks is not None
    assert projected is not None
    assert blocks.external is None
    assert prompt_json(blocks.conversation) == prompt_json(projected.conversation)
    assert fetch.report == RecallReport(requested=False)


async def test_c2_without_recall_nobody_learns_that_there_is_no_search() -> None:
    fetch = await fetched(KeptMemory(is_semantic=False), recall=OFF)
    assert fetch.blocks is None


async def test_c3_a_floor_that_nothing_reaches_leaves_no_block() -> None:
    store = KeptMemory()
    await store.add_turn(ALICE, turn("deploy on friday"))
    fetch = await fetched(store, "deploy", RecallSettings(enabled=True, min_score=1.1))
    assert fetch.blocks is None
    assert fetch.report.dropped_by_floor == 1


async def test_c4_below_every_score_a_related_turn_comes() -> None:
    store = KeptMemory()
    await store.add_turn(ALICE, turn("deploy on friday"))
    fetch = await fetched(store, "deploy", RecallSettings(enabled=True, min_score=-1))
    assert len(recalled(fetch)) >= 1


async def test_c5_a_turn_of_the_window_is_not_recalled() -> None:
    store = KeptMemory(window=1)
    await store.add_turn(ALICE, turn("deploy on friday"))
    fetch = await fetched(store, "deploy")
    assert fetch.blocks is not None
    assert fetch.blocks.external is None
    assert fetch.report.dropped_by_window == 1


async def test_c7_an_entry_has_both_texts_and_the_score() -> None:
    [entry] = recalled(await fetched(OfferedMemory(hits=[hit("a", "b", 0.123_46)])))
    assert entry == {"user": "a", "assistant": "b", "score": 0.1235}
    [entry] = recalled(
        await fetched(
            OfferedMemory(hits=[hit(score=-0.000_01)]), recall=replace(RECALL, min_score=-1)
        )
    )
    assert str(entry["score"]) == "0.0"


@pytest.mark.parametrize("error", [EmbedderMismatch("a", "b"), RuntimeError("broken")])
async def test_c9_an_error_of_the_search_leaves_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        await fetched(OfferedMemory(WINDOW, error))
    assert caught.value is error


@pytest.mark.parametrize("recall", [OFF, RECALL])
async def test_c10_an_error_of_the_patch_leaves_as_it_is(recall: RecallSettings) -> None:
    error = RuntimeError("broken")
    store = OfferedMemory(error)
    with pytest.raises(RuntimeError) as caught:
        await fetched(store, recall=recall)
    assert caught.value is error
    assert store.searched == []


async def test_c11_the_summary_is_the_same_with_recall_and_without() -> None:
    patch = LLMContextPatch(strategy="rolling_summary", summary="so far", unfolded_turns=3)
    store = OfferedMemory(patch, [hit()])
    without, with_recall = await fetched(store, recall=OFF), await fetched(store)
    assert without.blocks is not None
    assert with_recall.blocks is not None
    assert with_recall.blocks.conversation == without.blocks.conversation
    assert with_recall.unfolded_turns == without.unfolded_turns == 3


async def test_c12_a_hundred_sessions_at_once_see_their_own_turns() -> None:
    store = KeptMemory(window=1)
    people = [replace(ALICE, session=f"conv_{number}") for number in range(100)]
    for one in people:
        await store.add_turn(one, turn(f"older about {one.session}", "yes"))
        await store.add_turn(one, turn(f"newer about {one.session}", "yes"))
    before = asyncio.all_tasks()
    fetches = await asyncio.gather(*(fetched(store, "about", identity=one) for one in people))
    for one, fetch in zip(people, fetches, strict=True):
        assert [entry["user"] for entry in recalled(fetch)] == [f"older about {one.session}"]
        assert fetch.blocks is not None
        assert prompt_json(fetch.blocks.conversation).count(f'about {one.session}"') == 1
    assert asyncio.all_tasks() == before


async def test_c13_a_session_does_not_see_what_another_was_told() -> None:
    store = KeptMemory()
    await store.add_turn(ALICE, turn("my secret is 42"))
    other = replace(ALICE, session="conv_2")
    assert (await fetched(store, "secret", identity=other)).blocks is None


async def test_c14_a_user_sees_other_sessions_and_nobody_elses() -> None:
    store = KeptMemory()
    await store.add_turn(ALICE, turn("my secret is 42"))
    recall = replace(RECALL, scope="user")
    other = replace(ALICE, session="conv_2")
    [entry] = recalled(await fetched(store, "secret", recall, identity=other))
    assert entry["other_session"] is True
    for stranger in (replace(other, user="bob"), replace(other, tenant="evil")):
        assert (await fetched(store, "secret", recall, identity=stranger)).blocks is None
    [entry] = recalled(await fetched(store, "secret", recall))
    assert "other_session" not in entry


async def test_c15_hits_alone_make_blocks_of_the_external_tier_alone() -> None:
    fetch = await fetched(OfferedMemory(hits=[hit()]))
    assert fetch.blocks is not None
    assert fetch.blocks.external is not None
    assert fetch.blocks.conversation is None
    assert fetch.blocks.trust is Trust.TRUSTED_USER


async def test_c17_no_top_k_is_five() -> None:
    store = KeptMemory()
    for number in range(9):
        await store.add_turn(ALICE, turn(f"deploy {number}"))
    fetch = await fetched(store, "deploy", replace(RECALL, top_k=0))
    assert len(recalled(fetch)) == 5
    assert (fetch.report.top_k, fetch.report.returned, fetch.report.kept) == (5, 5, 5)


@pytest.mark.parametrize("query", ["", " \n\t"])
async def test_c23_a_blank_query_skips_recall(query: str) -> None:
    store = OfferedMemory(WINDOW, [hit()])
    fetch = await fetched(store, query)
    assert fetch.report == RecallReport(requested=True, recall_skipped="empty_query")
    assert fetch.blocks == project_memory_blocks(WINDOW)
    assert store.searched == []


async def test_c24_a_run_is_no_part_of_who_remembers() -> None:
    store = OfferedMemory(WINDOW)
    fetch = await fetched(store, identity=replace(ALICE, run="run_1"))
    assert store.asked == [ALICE]
    assert fetch.blocks is not None


async def test_c26_one_line_tells_counts_and_no_content() -> None:
    with capture_logs() as lines:
        await fetched(OfferedMemory(WINDOW, [hit("secret", "answer", 0.9)]), "question")
    [line] = lines
    assert line["event"] == "memory.recall"
    assert line["log_level"] == "debug"
    assert (line["kept"], line["top_score"], line["unindexed"]) == (1, 0.9, 2)
    assert not {"secret", "answer", "question", "before", "so"} & set(str(line).split("'"))


async def test_c35_cancelling_passes_through() -> None:
    class Waiting(OfferedMemory):
        @override
        async def search_turns(self, *_: Any, **__: Any) -> SearchResult:
            fetching.cancel()
            await asyncio.Event().wait()
            raise AssertionError

    async with asyncio.TaskGroup() as owner:
        fetching = owner.create_task(fetched(Waiting(WINDOW)))
    assert fetching.cancelled()


@pytest.mark.parametrize(
    "identity", [Identity(" ", "u", "s"), Identity("t", "", "s"), Identity("t", "u", "\t")]
)
async def test_c36_an_incomplete_identity_reaches_no_store(identity: Identity) -> None:
    store = OfferedMemory(WINDOW)
    with capture_logs() as lines, pytest.raises(IdentityRequired):
        await fetched(store, identity=identity)
    assert store.asked == []
    assert [line["event"] for line in lines] == ["memory.identity_rejected"]
