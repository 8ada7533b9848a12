"""Data of an older release is read in the words of this one; stored bytes stay as they are."""

from __future__ import annotations

from typing import Any

from app.log.envelope import Event
from app.log.upcasters import upcast
from app.policy.taint import Trust


def _renamed(data: dict[str, Any]) -> dict[str, Any]:
    return {"agent": data["name"]} if "name" in data else data


def _with_digest(data: dict[str, Any]) -> dict[str, Any]:
    return {"agent_digest": "", **data}


def test_each_step_takes_the_data_from_one_shape_to_the_next() -> None:
    steps = {"run.created": (_renamed, _with_digest)}
    assert upcast("run.created", {"name": "a"}, upcasters=steps) == {
        "agent": "a",
        "agent_digest": "",
    }


def test_the_present_shape_and_other_types_pass_unchanged() -> None:
    steps = {"run.created": (_renamed,)}
    assert upcast("run.created", {"agent": "a"}, upcasters=steps) == {"agent": "a"}
    assert upcast("run.failed", {"name": "a"}, upcasters=steps) == {"name": "a"}


def test_an_event_keeps_the_bytes_that_were_written() -> None:
    body = b'{"at":"2026-11-29T12:00:00.000Z","data":{"text":"a"}}'
    event = Event("conv_1", 1, None, None, None, "text.delta", Trust.UNSPECIFIED, body)
    assert event.data == {"text": "a"}
    assert event.body == body
