"""What payloads look like on the wire where that is not simply their fields."""

from __future__ import annotations

from app.log.calls import MessageAssistant, ReplyPart, ToolStarted
from app.log.payload import CoveredBy, UsageTotals, WorkerRef
from app.log.runs import RunPaused, StepCompleted, TextDelta

NONE_REPORTED = {
    "input_tokens": 0,
    "output_tokens": 0,
    "total_tokens": 0,
    "cached_input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "tool_use_prompt_tokens": 0,
    "reasoning_tokens": 0,
}


def test_outside_of_a_delegation_there_is_no_member_worker() -> None:
    assert TextDelta(text="hi").wire() == {"text": "hi"}


def test_an_event_of_a_worker_names_its_delegation() -> None:
    delta = TextDelta(text="hi", worker=WorkerRef(call_id="call_1_1_0", agent="researcher"))
    assert delta.wire() == {
        "text": "hi",
        "worker": {"call_id": "call_1_1_0", "agent": "researcher"},
    }


def test_unreported_usage_is_seven_zeros() -> None:
    assert StepCompleted(calls=0, usage=UsageTotals()).wire() == {
        "calls": 0,
        "usage": NONE_REPORTED,
    }


def test_lists_of_ids_are_arrays() -> None:
    assert RunPaused(approvals=("appr_1",), questions=()).wire() == {
        "approvals": ["appr_1"],
        "questions": [],
    }


def test_a_start_says_what_let_it_run() -> None:
    started = ToolStarted(
        call_id="call_1_1_0",
        request_id="call_0_0",
        tool="files_write",
        args_sha256="a" * 64,
        idempotency_key="run_1:call_1_1_0",
        attempt=1,
        covered_by=CoveredBy(kind="session", id="appr_1"),
    )
    assert started.wire()["covered_by"] == {"kind": "session", "id": "appr_1"}


def message(*parts: ReplyPart) -> dict[str, object]:
    said = MessageAssistant(message_id="msg_1", usage=UsageTotals(), stop="stop", content=parts)
    return said.wire()


def test_each_part_of_a_reply_has_the_fields_of_its_own_type_alone() -> None:
    wire = message(
        ReplyPart(type="reasoning", text="hm"),
        ReplyPart(type="text", text="sent"),
        ReplyPart(
            type="tool_call",
            call_id="call_1_1_0",
            request_id="call_0_0",
            tool="clock_now",
            args={},
            args_canonical="{}",
            args_sha256="4" * 64,
        ),
    )
    assert wire == {
        "message_id": "msg_1",
        "usage": NONE_REPORTED,
        "stop": "stop",
        "content": [
            {"type": "reasoning", "text": "hm"},
            {"type": "text", "text": "sent"},
            {
                "type": "tool_call",
                "call_id": "call_1_1_0",
                "request_id": "call_0_0",
                "tool": "clock_now",
                "args": {},
                "args_canonical": "{}",
                "args_sha256": "4" * 64,
            },
        ],
    }


def test_a_malformed_call_shows_its_text_in_place_of_arguments() -> None:
    wire = message(
        ReplyPart(
            type="tool_call",
            call_id="call_1_1_0",
            request_id="call_0_0",
            tool="clock_now",
            args_text="{broken",
        )
    )
    assert wire["content"] == [
        {
            "type": "tool_call",
            "call_id": "call_1_1_0",
            "request_id": "call_0_0",
            "tool": "clock_now",
            "args": None,
            "args_text": "{broken",
        }
    ]
