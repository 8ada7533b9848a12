"""The envelope: exact bodies, times, and what is cut for pages and frames (service.md 6)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest

from app.log.calls import MessageAssistant, ReplyPart, ToolCompleted
from app.log.envelope import Event, NewEvent, placed, shown, wire_time
from app.log.payload import Payload, UsageTotals
from app.log.runs import TextDelta
from app.policy.taint import Trust

AT = "2026-11-29T12:00:00.007Z"
KIB = 1024


def event_of(payload: Payload, trust: Trust = Trust.UNSPECIFIED) -> Event:
    new = NewEvent(payload, run_id="run_1", turn_id="turn_1", step=2, trust=trust, private=b"\x00p")
    return placed(new, conversation_id="conv_1", seq=7, at=AT)


def completed(result: str) -> Event:
    return event_of(ToolCompleted(call_id="call_1_1_0", tool="files_read", result=result))


def said(*texts: str) -> Event:
    parts = tuple(ReplyPart(type="text", text=text) for text in texts)
    return event_of(
        MessageAssistant(message_id="msg_1", usage=UsageTotals(), stop="stop", content=parts)
    )


def called(args: dict[str, Any]) -> Event:
    part = ReplyPart(
        type="tool_call",
        call_id="call_1_1_0",
        request_id="call_0_0",
        tool="http_post",
        args=args,
        args_canonical=orjson.dumps(args).decode(),
        args_sha256="a" * 64,
    )
    return event_of(
        MessageAssistant(message_id="msg_1", usage=UsageTotals(), stop=None, content=(part,))
    )


def test_the_body_is_the_wire_event_in_the_order_of_the_specification() -> None:
    event = event_of(TextDelta(text="h\u00e9\u0000\n"), Trust.QUARANTINED_CONTENT)
    assert event.body == (
        b'{"conversation_id":"conv_1","seq":7,"run_id":"run_1","turn_id":"turn_1","step":2,'
        b'"type":"text.delta","at":"2026-11-29T12:00:00.007Z","trust":"quarantined_content",'
        b'"data":{"text":"h\xc3\xa9\\u0000\\n"}}'
    )


def test_an_event_of_no_run_says_so_with_nulls() -> None:
    event = placed(NewEvent(TextDelta(text="")), conversation_id="conv_1", seq=1, at=AT)
    assert b'"run_id":null,"turn_id":null,"step":null' in event.body


def test_a_placed_event_gives_back_what_went_in() -> None:
    event = event_of(TextDelta(text="nul \u0000 and \U0001f600"), Trust.TRUSTED_USER)
    assert event.data == {"text": "nul \u0000 and \U0001f600"}
    assert event.at == datetime(2026, 11, 29, 12, 0, 0, 7000, tzinfo=UTC)
    assert (event.seq, event.type, event.trust) == (7, "text.delta", Trust.TRUSTED_USER)
    assert (event.run_id, event.turn_id, event.step) == ("run_1", "turn_1", 2)
    assert event.private == b"\x00p"
    assert b"private" not in event.body


@dataclass(frozen=True)
class TimeCase:
    name: str
    at: datetime
    wire: str


TIMES = [
    TimeCase("whole", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05.000Z"),
    TimeCase(
        "never_rounded_up",
        datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        "2026-12-31T23:59:59.999Z",
    ),
    TimeCase(
        "of_another_zone",
        datetime(2026, 1, 2, 1, 0, tzinfo=timezone(timedelta(hours=2))),
        "2026-01-01T23:00:00.000Z",
    ),
]


@pytest.mark.parametrize("case", TIMES, ids=lambda case: case.name)
def test_wire_time_is_utc_with_milliseconds(case: TimeCase) -> None:
    assert wire_time(case.at) == case.wire


def test_a_short_event_is_shown_as_it_is_stored() -> None:
    event = completed("x" * 100)
    assert shown(event) is event.body


def test_a_text_of_exactly_64_kib_is_not_cut() -> None:
    event = completed("x" * 64 * KIB)
    assert shown(event) == event.body


def test_a_text_over_64_kib_is_cut_and_named() -> None:
    document = orjson.loads(shown(completed("x" * (64 * KIB + 1))))
    assert document["data"]["result"] == "x" * 64 * KIB
    assert document["cut"] == ["/result"]
    assert list(document)[-1] == "cut"


def test_a_text_is_cut_between_characters() -> None:
    document = orjson.loads(shown(completed("x" + "\u20ac" * 22_000)))
    assert document["data"]["result"] == "x" + "\u20ac" * 21_845


def test_the_log_keeps_a_cut_event_whole() -> None:
    event = completed("x" * 70 * KIB)
    shown(event)
    assert event.data["result"] == "x" * 70 * KIB


def test_only_the_long_text_of_several_is_named() -> None:
    document = orjson.loads(shown(said("short", "x" * 65 * KIB, "short too")))
    assert document["cut"] == ["/content/1/text"]
    assert document["data"]["content"][2]["text"] == "short too"


def test_a_pointer_escapes_what_json_pointers_escape() -> None:
    document = orjson.loads(shown(called({"a/b~c": "x" * 65 * KIB})))
    assert document["cut"] == ["/content/0/args/a~1b~0c", "/content/0/args_canonical"]


def test_texts_of_64_kib_each_are_halved_until_the_event_fits_a_frame() -> None:
    """F71: no frame exceeds 256 KiB, whatever is in the event."""
    document = orjson.loads(shown(said(*["x" * 64 * KIB] * 5)))
    assert [len(part["text"]) for part in document["data"]["content"]] == [32 * KIB] * 5
    assert document["cut"] == [f"/content/{index}/text" for index in range(5)]


@dataclass(frozen=True)
class WideCase:
    name: str
    args: dict[str, Any]
    cut: list[str]


WIDE = [
    WideCase("many_numbers", {"n": [1] * 300_000}, ["/content/0/args/n"]),
    WideCase("many_small_texts", {"t": ["abc"] * 100_000}, ["/content/0/args/t"]),
    WideCase("many_members", {f"k{i}": 1 for i in range(50_000)}, ["/content/0/args"]),
    WideCase("one_long_key", {"k" * 400_000: 1}, ["/content/0/args"]),
    WideCase("nested", {"a": {"b": [[1] * 200_000]}, "c": 1}, ["/content/0/args/a/b/0"]),
]


@pytest.mark.parametrize("case", WIDE, ids=lambda case: case.name)
def test_arguments_that_no_text_can_shorten_lose_their_members(case: WideCase) -> None:
    text = shown(called(case.args))
    document = orjson.loads(text)
    assert len(text) <= 256 * KIB
    assert document["cut"] == [*case.cut, "/content/0/args_canonical"]
    assert document["data"]["content"][0]["tool"] == "http_post"


def test_a_frame_has_room_for_what_is_around_the_event() -> None:
    for size in range(250 * KIB, 258 * KIB, KIB):
        chunk = size // 5
        assert len(shown(said(*["x" * chunk] * 5))) <= 256 * KIB - 4 * KIB


def test_thousands_of_parts_fit_a_frame() -> None:
    text = shown(said(*["word"] * 20_000))
    assert len(text) <= 256 * KIB
    assert orjson.loads(text)["cut"] == ["/content"]
