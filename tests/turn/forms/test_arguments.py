"""Arguments as a turn handles them (turn.md 3.3, T21 to T26)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.log.calls import CallGated, MessageAssistant, ToolSettled
from app.turn.ports import FailureKind
from app.turn.result import EndedBy
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import MemoryTool
from tests.support.turn.world import World


@dataclass(frozen=True)
class Defect:
    id: str
    text: str
    says: str


TOO_LONG = "/a: a number beyond 2^53-1 in magnitude; send it as a string"
DEFECTS = [
    Defect("a-list", "[1]", "expected a JSON object, found array"),
    Defect("null", "null", "expected a JSON object, found null"),
    Defect("a-duplicate-key", '{"a":1,"a":2}', "/a: a key that occurs twice"),
    Defect("nan", '{"a":NaN}', "/a: NaN"),
    Defect("2-to-the-53", '{"a":9007199254740992}', TOO_LONG),
    Defect("1e20", '{"a":1e20}', TOO_LONG),
    Defect("a-lone-surrogate", '{"a":"\\ud800"}', "/a: a lone surrogate"),
    Defect("depth-65", '{"a":' + "[" * 64 + "]" * 64 + "}", "nested deeper than 64"),
    Defect("broken-text", '{"a":', "invalid JSON"),
]


@pytest.mark.parametrize("case", DEFECTS, ids=lambda case: case.id)
async def test_t21_malformed_arguments_reach_neither_gate_nor_person_nor_tool(
    case: Defect,
) -> None:
    """T21, F78: the model is told to send a number that is too long as a string."""
    world = World(
        [reply(called("c1", "post", case.text)), reply(said("ok"))], MemoryTool("post", asks=True)
    )
    result = await world.turn()
    assert (result.pending_approvals, world.tools.gated, world.tools.ran) == ((), [], [])
    (settled,) = world.journal.of(ToolSettled)
    assert settled.outcome == "malformed_arguments"
    assert case.says in settled.result
    assert settled.result.endswith('"code":"malformed_arguments"}')


async def test_the_log_shows_malformed_text_as_it_was_sent() -> None:
    world = World([reply(called("c1", "post", "[1]")), reply(said("ok"))], MemoryTool("post"))
    await world.turn()
    (part,) = world.journal.of(MessageAssistant)[0].content
    assert (part.args, part.args_text, part.call_id) == (None, "[1]", "call_1_1_0")


async def test_t22_the_third_malformed_step_in_a_row_fails_the_turn() -> None:
    world = World([reply(called(f"c{step}", "read", "[")) for step in range(4)], MemoryTool("read"))
    result = await world.turn()
    assert result.ended_by is EndedBy.FAILURE
    assert result.failure is not None
    assert result.failure.kind is FailureKind.MALFORMED_ARGUMENTS
    assert len(world.prepared.requests) == 3
    assert len(world.journal.of(ToolSettled)) == 3


async def test_t22_steps_are_counted_and_not_their_calls() -> None:
    step = [called(f"c{n}", "read", "[", position=n) for n in range(3)]
    world = World([reply(*step), reply(*step), reply(said("ok"))], MemoryTool("read"))
    assert (await world.turn()).text == "ok"


async def test_t22_a_sound_step_between_restarts_the_count() -> None:
    texts = ["[", "[", "{}", "[", "["]
    replies = [reply(called(f"c{step}", "read", text)) for step, text in enumerate(texts)]
    world = World([*replies, reply(said("ok"))], MemoryTool("read"))
    assert (await world.turn()).text == "ok"


async def test_t23_a_sound_call_beside_a_malformed_one_runs() -> None:
    world = World(
        [reply(called("c1", "read", "["), called("c2", "read", {}, position=1)), reply(said("ok"))],
        MemoryTool("read"),
    )
    await world.turn()
    assert [call.request_id for call in world.tools.calls] == ["c2"]


async def test_t24_the_order_of_keys_and_the_spelling_of_numbers_do_not_matter() -> None:
    world = World(
        [
            reply(called("c1", "read", '{"b":1.0,"a":-0.0}')),
            reply(called("c2", "read", '{"a":0,"b":1}')),
            reply(said("ok")),
        ],
        MemoryTool("read"),
    )
    await world.turn()
    first, second = (call.args_canonical for call in world.tools.calls)
    assert first == second == b'{"a":0,"b":1}'


SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "more": {"type": "string", "default": "x"}},
    "required": ["n"],
    "additionalProperties": False,
}


async def test_t26_arguments_off_schema_get_an_error_and_nobody_is_asked() -> None:
    world = World(
        [reply(called("c1", "post", {"n": "many"})), reply(said("ok"))],
        MemoryTool("post", asks=True, parameters=SCHEMA),
    )
    result = await world.turn()
    assert (result.pending_approvals, world.tools.gated) == ((), [])
    (settled,) = world.journal.of(ToolSettled)
    assert settled.outcome == "invalid_arguments"
    assert "at /n: 'many' is not of type 'integer'" in settled.result
    assert world.journal.of(CallGated) == []


async def test_t26_validation_changes_no_byte_of_accepted_arguments() -> None:
    world = World(
        [reply(called("c1", "post", {"n": 1})), reply(said("ok"))],
        MemoryTool("post", parameters=SCHEMA),
    )
    await world.turn()
    assert world.tools.calls[0].args_canonical == b'{"n":1}'


@pytest.mark.parametrize("text", ["", "  "])
async def test_t26_absent_argument_text_is_an_empty_object(text: str) -> None:
    world = World([reply(called("c1", "read", text)), reply(said("ok"))], MemoryTool("read"))
    await world.turn()
    assert world.tools.calls[0].args_canonical == b"{}"


@pytest.mark.parametrize(
    "parameters",
    [
        {"$ref": "https://example.org/schema.json"},
        {"type": "nonsense"},
        {"properties": 7},
        {"properties": {"a": {"type": "integer"}, "b": {"pattern": "^(a|a)*$"}}},
    ],
    ids=["remote", "unknown-type", "no-schema", "runaway-pattern"],
)
async def test_a_schema_that_cannot_be_evaluated_fits_nothing(
    parameters: dict[str, object],
) -> None:
    world = World(
        [reply(called("c1", "read", {"a": 1, "b": "a" * 64 + "!"})), reply(said("ok"))],
        MemoryTool("read", parameters=parameters),
    )
    await world.turn()
    (settled,) = world.journal.of(ToolSettled)
    assert "its schema cannot be evaluated" in settled.result


async def test_a_schema_is_compiled_once_and_serves_the_next_call_too() -> None:
    world = World(
        [
            reply(called("c1", "read", {"n": 1}), called("c2", "read", {"n": "x"}, position=1)),
            reply(said("ok")),
        ],
        MemoryTool("read", parameters=SCHEMA),
    )
    await world.turn()
    assert world.tools.ran == ["read"]


async def test_a_call_without_its_text_is_read_from_its_object() -> None:
    whole = called("c1", "read", {"b": 1, "a": [2]})
    bare = whole.tool_call.model_copy(update={"additional_params": None})
    world = World(
        [reply(whole.model_copy(update={"tool_call": bare})), reply(said("ok"))], MemoryTool("read")
    )
    await world.turn()
    assert world.tools.calls[0].args_canonical == b'{"a":[2],"b":1}'


async def test_a_call_without_a_name_is_an_unknown_tool_under_a_name_providers_take() -> None:
    world = World([reply(called("c1", "", {})), reply(said("ok"))], MemoryTool("read"))
    await world.turn()
    (settled,) = world.journal.of(ToolSettled)
    assert (settled.tool, settled.outcome) == ("unnamed_tool", "unknown_tool")


async def test_the_schema_of_a_tool_holds_though_it_was_not_advertised() -> None:
    """turn.md 3.4, rows 5 and 7: it is owned, so the call goes on, and its schema counts."""
    strict = {"type": "object", "required": ["n"]}
    world = World(
        [reply(called("c1", "hidden", {})), reply(said("ok"))],
        MemoryTool("hidden", parameters=strict, advertised=False),
    )
    await world.turn()
    assert [one.outcome for one in world.journal.of(ToolSettled)] == ["invalid_arguments"]
    assert world.tools.ran == []
