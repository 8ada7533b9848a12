"""Documents of runs: what must hold beyond the structure (agent-run.md 12)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from app.engine.agent_run import AgentRun
from app.engine.errors import InvalidRunDocument
from tests.engine.machine.run_states import (
    EVERY_STATE,
    SAID,
    accepted,
    accepted_stream,
    awaiting,
    done,
    executing,
    fresh,
    parked,
    repeated,
)
from tests.engine.run_driving import call

if TYPE_CHECKING:
    from collections.abc import Callable

REPLY = {"role": "assistant", "id": None, "content": [SAID.model_dump(mode="json")]}


@pytest.mark.parametrize("build", EVERY_STATE)
def test_a_run_in_any_state_survives_its_document(build: Callable[[], AgentRun]) -> None:
    """P1"""
    run = build()
    assert AgentRun.load(run.dump()) == AgentRun.load(run.dump_json()) == run


@dataclass(frozen=True)
class Breach:
    id: str
    build: Callable[[], AgentRun]
    changes: dict[str, Any]
    message: str
    removed: tuple[str, ...] = field(default=())


def dumped(value: Any) -> Any:
    return value.model_dump(mode="json")


BREACHES = [
    Breach("call-index", done, {"completion_calls/0/call_index": 1}, "calls/0/call_index"),
    Breach("sum", done, {"usage/output_tokens": 1}, "usage: not the sum"),
    Breach("schema", fresh, {"config/output_schema": {"type": "text"}}, "config/output_schema"),
    Breach("first-is-an-assistant", fresh, {"messages/0": REPLY}, "messages/0: expected UserM"),
    Breach("ends-with-an-assistant", awaiting, {"messages/1": REPLY}, "messages: the last one"),
    Breach("two-users", executing, {"messages/1": {"role": "user", "content": [
        {"type": "text", "text": "a"}]}}, "messages/1: expected AssistantMessage"),
    Breach("open-history", fresh, {"input_history/0": {"role": "assistant", "id": None,
        "content": [dumped(call("c"))]}}, "messages: unanswered"),
    Breach("begun-without-a-turn", awaiting, {"turn": 0}, "turn: the run has begun one"),
    Breach("owed-without-a-turn", fresh, {"state/rollback_owed": True}, "turn: the run has begun"),
    Breach("billed-without-a-turn", repeated, {"turn": 0}, "turn: the run has begun one"),
    Breach("recorded-without-a-call", awaiting, {"state/recorded": True}, "state/recorded"),
    Breach("accepted-without-a-call", accepted, {"completion_calls": []}, "completion_calls"),
    Breach("parked-without-a-call", parked, {"completion_calls": []}, "completion_calls"),
    Breach("parked-on-a-good-call", parked, {"state/next_position": 4}, "state/next_position"),
    Breach("parked-outside", parked, {"state/next_position": 9}, "state/next_position"),
    Breach("items-shorter", parked, {}, "state/items", ("state/items/4",)),
    Breach("items-with-other-ids", parked, {"state/items/0/id": "other"}, "state/items"),
    Breach("repaired-too-early", parked, {"state/items/4/function/name": "other"}, "state/items"),
    Breach("repaired-badly", parked, {"state/items/0/function/name": "other"}, "position 0"),
    Breach("not-recovered", parked, {"state/recovered": False}, "state/recovered"),
    Breach("ignored-and-skipped", parked, {"state/ignored": [1]}, "state/ignored"),
    Breach("ignored-later", parked, {"state/ignored": [2, 4]}, "not decided on yet"),
    Breach("ignored-in-disorder", parked, {"state/ignored": [2, 2]}, "strictly increasing"),
    Breach("ignored-nothing", parked, {"state/ignored": []}, "position 2"),
    Breach("skipped-text", accepted, {"state/skipped/0/position": 0}, "not the position of a call"),
    Breach("skipped-for-another", accepted, {"state/skipped/0/result/call": "c1"}, "state/skipped"),
    Breach("skipped-nothing", accepted, {"state/skipped": []}, "position 2 is not allowed"),
    Breach("internal-id-of-text", accepted_stream,
        {"state/internal_call_ids/0/position": 0}, "state/internal_call_ids"),
    Breach("internal-ids-in-disorder", accepted_stream,
        {"state/internal_call_ids/0/position": 2}, "strictly increasing"),
    Breach("slot-of-another-call", executing,
        {"state/slots/1/tool_call/id": "c3"}, r"unanswered|orphan"),
    Breach("slot-elsewhere", executing, {"state/slots/0/position": 0}, "state/slots: not the"),
    Breach("slots-without-a-batch", executing, {}, "orphan", ("messages/1",)),
    Breach("answer-to-another", executing,
        {"state/slots/0/answer/name": "other"}, "state/slots: not a result"),
    Breach("slots-not-allowed", executing,
        {"state/policy/executable_tools": []}, "position 1 is not allowed"),
]  # fmt: skip


@pytest.mark.parametrize("case", BREACHES, ids=lambda case: case.id)
def test_a_document_that_contradicts_itself_is_refused(case: Breach) -> None:
    """A164, A195"""
    document = case.build().dump()
    for path, value in case.changes.items():
        parent, key = place(document, path)
        if isinstance(parent, list) and key == len(parent):
            parent.append(value)
        else:
            parent[key] = value
    for path in case.removed:
        parent, key = place(document, path)
        del parent[key]
    with pytest.raises(InvalidRunDocument, match=case.message):
        AgentRun.load(document)


def test_a_batch_without_an_open_call_is_refused() -> None:
    """agent-run.md 12"""
    document: Any = executing().dump()
    answer = document["state"]["slots"][0]["answer"]
    document["state"]["slots"][1]["answer"] = {
        **answer, "call": "c2", "provider": {"call_id": "c2", "item_id": None},
    }  # fmt: skip
    with pytest.raises(InvalidRunDocument, match="state/slots: none is open"):
        AgentRun.load(document)


def place(document: Any, path: str) -> tuple[Any, Any]:
    """The container of a path and the last key in it."""
    *above, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    for step in above:
        document = document[step]
    return document, last
