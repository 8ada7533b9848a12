"""Names, argument deltas and decisions on streamed calls (agent-run.md 8.2)."""

from __future__ import annotations

import pytest

from app.engine.errors import CompletionError
from app.engine.streaming.items import (
    Ignored,
    Repaired,
    StreamedResolution,
    StreamItem,
    TurnAbandoned,
)
from tests.engine.streaming.stream_items import (
    POLICY,
    args,
    assembler,
    deltas_of,
    feed,
    final,
    invalid_of,
    name,
    tool_call,
    whole,
)


def test_arguments_wait_for_their_name_and_then_pass() -> None:
    """A52, A145."""
    streamed = assembler()
    assert feed(streamed, args("i1", '{"x":')) == []
    assert deltas_of(feed(streamed, name("i1", "add"))) == [
        ("i1", "name", "add"),
        ("i1", "arguments", '{"x":'),
    ]
    assert deltas_of(feed(streamed, args("i1", "1}"))) == [("i1", "arguments", "1}")]
    assert streamed.finish(None, ()).choice == (), "name deltas alone never make a call"


def test_arguments_without_a_name_fail_the_terminal_record() -> None:
    """A53, A146."""
    streamed = assembler(name("i1", "add"), args("i9", "{"), args("i9", "}"))
    before = streamed.dump()
    error = streamed.pending_delta_error()
    assert error is not None
    with pytest.raises(CompletionError, match="internal_call_id `i9`: 2 buffered") as caught:
        streamed.ingest(final())
    assert str(error) == str(caught.value)
    assert caught.value.kind == "response"
    assert streamed.dump() == before


def test_nothing_pends_where_every_name_is_known() -> None:
    streamed = assembler(name("i1", "add"), args("i1", "{}"))
    assert streamed.pending_delta_error() is None
    assert len(feed(streamed, final())) == 1


def test_complete_calls_are_kept_in_order_without_an_event() -> None:
    """A68, A76, A143: also when the provider repeats an id."""
    streamed = assembler()
    assert feed(streamed, whole("a"), whole("b", "subtract")) == []
    turn = streamed.finish(None, ())
    assert turn.choice == (tool_call("tc_1"), tool_call("tc_1", "subtract"))
    assert [one.internal_call_id for one in turn.internal_call_ids] == ["a", "b"]


def test_a_complete_call_brings_the_name_its_deltas_lacked() -> None:
    streamed = assembler(args("i1", "{}"), whole("i1"))
    assert streamed.pending_delta_error() is None
    assert deltas_of(feed(streamed, args("i1", "late"))) == [("i1", "arguments", "late")]


def test_a_complete_call_with_a_name_that_is_not_allowed_is_parked() -> None:
    """A69."""
    invalid = invalid_of(feed(assembler(), whole("i1", "nope", raw='{"x": 1}')))
    assert invalid.tool_call == tool_call("tc_1", "nope")
    assert invalid.internal_call_id == "i1"
    assert invalid.args == '{"x":1}'
    assert invalid.policy == POLICY


def test_the_arguments_of_a_malformed_call_are_shown_as_sent() -> None:
    assert invalid_of(feed(assembler(), whole("i1", "nope", raw='{"x"'))).args == '{"x"'


@pytest.mark.parametrize(
    ("buffer", "arguments", "malformed"),
    [((), {}, None), (('{"x":', "1}"), {"x": 1}, None), (('{"x":',), {}, '{"x":')],
)
def test_a_bad_name_is_parked_with_a_call_made_for_the_record(
    buffer: tuple[str, ...], arguments: dict[str, int], malformed: str | None
) -> None:
    """A73, A139."""
    streamed = assembler(*(args("i1", piece) for piece in buffer))
    invalid = invalid_of(feed(streamed, name("i1", "default_api")))
    assert invalid.args == "".join(buffer)
    call = invalid.tool_call
    assert (call.id, call.provider, call.name) == ("local-i1", None, "default_api")
    assert call.function.arguments == arguments
    assert call.function.invalid_arguments == malformed


def test_a_repaired_complete_call_is_kept_under_the_new_name() -> None:
    """A94."""
    streamed = assembler(whole("i1", "nope"))
    assert streamed.resolve_pending_invalid(Repaired(tool_name="add")) == ()
    assert streamed.finish(None, (tool_call("tc_1", "nope"),)).choice == (tool_call("tc_1"),)


def test_a_repaired_name_goes_out_with_what_waited_for_it() -> None:
    """A73."""
    streamed = assembler(args("i1", '{"x":'), args("i1", "1}"), name("i1", "default_api"))
    events = streamed.resolve_pending_invalid(Repaired(tool_name="add"))
    assert deltas_of(list(events)) == [
        ("i1", "name", "add"),
        ("i1", "arguments", '{"x":'),
        ("i1", "arguments", "1}"),
    ]


def test_a_repaired_name_sticks_to_the_complete_call() -> None:
    """A148: there is no second question about it."""
    streamed = assembler(name("i1", "default_api"))
    streamed.resolve_pending_invalid(Repaired(tool_name="add"))
    assert deltas_of(feed(streamed, name("i1", "default_api"))) == [("i1", "name", "add")]
    assert feed(streamed, whole("i1", "default_api")) == []
    assert streamed.partial_turn().tool_calls == (tool_call("tc_1"),)


def test_a_repair_says_nothing_about_other_calls() -> None:
    streamed = assembler(name("i1", "default_api"))
    streamed.resolve_pending_invalid(Repaired(tool_name="add"))
    assert invalid_of(feed(streamed, whole("i2", "default_api"))).internal_call_id == "i2"


def test_the_deltas_of_an_abandoned_turn_do_not_trip_its_terminal_record() -> None:
    """A138, A153: nor do those that arrive while the stream is drained."""
    streamed = assembler(args("i2", "{"), args("i1", "{"), name("i1", "nope"))
    assert streamed.resolve_pending_invalid(TurnAbandoned()) == ()
    late = (args("i1", "}"), args("i3", "{}"), name("i3", "nope"), whole("i4", "nope"))
    assert feed(streamed, *late) == []
    assert len(feed(streamed, final())) == 1


@pytest.mark.parametrize("first", [name("i1", "nope"), whole("i1", "nope")])
def test_an_ignored_call_stays_out_of_the_turn(first: StreamItem) -> None:
    """A150."""
    streamed = assembler(args("i1", "{"), first)
    assert streamed.resolve_pending_invalid(Ignored()) == ()
    assert feed(streamed, args("i1", "}"), name("i1", "nope"), whole("i1", "nope")) == []
    assert len(feed(streamed, whole("i2", id_="tc_2"), final())) == 1
    turn = streamed.finish(None, (tool_call("tc_1", "nope"), tool_call("tc_2")))
    assert turn.choice == (tool_call("tc_2"),)


def test_an_ignored_call_does_not_come_back_with_the_providers_content() -> None:
    """A150: not even if it was the only one of the turn."""
    streamed = assembler(whole("i1", "nope"))
    streamed.resolve_pending_invalid(Ignored())
    assert streamed.finish(None, (tool_call("tc_1", "nope"),)).choice == ()


@pytest.mark.parametrize("resolution", [Repaired(tool_name="add"), Ignored(), TurnAbandoned()])
def test_nothing_can_be_resolved_while_nothing_is_parked(resolution: StreamedResolution) -> None:
    with pytest.raises(CompletionError, match="no streamed tool call awaits resolution"):
        assembler(whole("i1")).resolve_pending_invalid(resolution)


def test_a_parked_call_is_not_part_of_the_partial_turn() -> None:
    """A69, A142."""
    streamed = assembler(whole("i1"), whole("i2", "nope"))
    assert streamed.partial_turn().tool_calls == (tool_call("tc_1"),)
