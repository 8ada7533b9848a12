"""What a client attaches to a run (run-context.md 3.9, 11.D)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.policy.taint import Trust
from app.runctx.caller_memory import (
    CallerMemoryInvalid,
    CallerMemoryTierShape,
    compose_caller_memory,
)
from app.runctx.memory import MemoryBlocks

RECALLED: dict[str, Any] = {"recalled_turns": [{"user": "a", "assistant": "b", "score": 0.5}]}
CONVERSATION: dict[str, Any] = {"strategy": "truncation", "recent_turns": []}
BLOCKS = MemoryBlocks(RECALLED, CONVERSATION, Trust.TRUSTED_USER)


def composed(raw: bytes | str, blocks: MemoryBlocks | None = BLOCKS, **more: Any) -> MemoryBlocks:
    result = compose_caller_memory(blocks, raw, **more)
    assert result is not None
    return result


@pytest.mark.parametrize("raw", [None, b"", ""])
def test_c56_nothing_given_changes_nothing(raw: bytes | str | None) -> None:
    assert compose_caller_memory(BLOCKS, raw) is BLOCKS
    assert compose_caller_memory(None, raw) is None


def test_c57_without_blocks_there_is_the_one_key() -> None:
    assert composed(b'{"a":1.5}', None) == MemoryBlocks(
        {"caller_supplied": {"a": 1.5}}, None, Trust.QUARANTINED_CONTENT
    )
    only_conversation = MemoryBlocks(None, CONVERSATION, Trust.TRUSTED_USER)
    assert composed("[1]", only_conversation).external == {"caller_supplied": [1]}


def test_c58_what_was_recalled_stays_beside_it() -> None:
    external: Any = composed("0").external
    assert external == {**RECALLED, "caller_supplied": 0}
    assert external["recalled_turns"] is RECALLED["recalled_turns"]


@pytest.mark.parametrize(
    "raw",
    ["null", "{", " \n", "NaN", "[Infinity]", '{"a":1,"a":2}', b"\xff", "[" * 33 + "]" * 33],
    ids=["null", "broken", "blank", "nan", "infinity", "twice", "bytes", "deep"],
)
def test_c59_what_is_no_sound_json_is_refused(raw: bytes | str) -> None:
    with pytest.raises(CallerMemoryInvalid):
        compose_caller_memory(BLOCKS, raw)


def test_c59_nesting_of_32_is_taken() -> None:
    assert composed("[" * 32 + "]" * 32, None).conversation is None


@pytest.mark.parametrize("external", [[1], "text", {"caller_supplied": 1}])
def test_c60_a_tier_without_room_is_refused(external: Any) -> None:
    with pytest.raises(CallerMemoryTierShape):
        compose_caller_memory(MemoryBlocks(external, None, Trust.TRUSTED_USER), "1")


def test_c61_a_client_reaches_no_other_key() -> None:
    external: Any = composed('{"recalled_turns":[]}').external
    assert external["recalled_turns"] == RECALLED["recalled_turns"]
    assert external["caller_supplied"] == {"recalled_turns": []}


def test_c62_the_given_blocks_stay_as_they_are_however_many_compose() -> None:
    """C44 as well."""
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(composed, str(number)) for number in range(128)]
    for number, one in enumerate(asked):
        result = one.result()
        assert result.external == {**RECALLED, "caller_supplied": number}
        assert result.conversation is CONVERSATION
    assert list(RECALLED) == ["recalled_turns"]


def test_c64_a_client_is_not_trusted_unless_the_agent_says_so() -> None:
    assert composed("1").trust is Trust.QUARANTINED_CONTENT
    assert composed("1", trust=Trust.TRUSTED_USER).trust is Trust.TRUSTED_USER
    tainted = MemoryBlocks(RECALLED, None, Trust.QUARANTINED_CONTENT)
    assert composed("1", tainted, trust=Trust.TRUSTED_USER).trust is Trust.QUARANTINED_CONTENT
    assert composed("1", None, trust=Trust.TRUSTED_USER).trust is Trust.TRUSTED_USER
