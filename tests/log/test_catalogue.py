"""The closed list of event types, and a log of today that every later release must read."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from pydantic import ValidationError

from app.log.catalogue import PAYLOADS, TERMINAL, UnknownEventType, parse
from app.log.envelope import NewEvent, placed
from app.log.runs import RunStarted
from app.policy.taint import Trust

# One stored event of each type. A line is never changed: what was written must stay readable.
GOLDEN = Path(__file__).parents[1] / "golden" / "events.jsonl"

# The table of service.md 6, as far as the surfaces behind it exist.
TABLE = """
    conversation.created conversation.updated run.created message.user run.started run.resumed
    context.assembled attachment.resolved memory.written history.compacted
    step.started step.discarded text.delta reasoning.delta message.assistant
    call.gated approval.requested approval.decided approval.resolved decision.refused
    question.asked question.answered run.paused tool.started tool.completed tool.failed tool.settled
    step.completed policy.rechecked call.denied_unattended dispatch.mutated retrieval.missed
    delegate.started delegate.completed session_approval.ended grant.replayed run.checkpointed
    run.completed run.failed run.cancelled log.sealed
    key.registered key.revoked passkey.registered passkey.revoked keys.reset
    agent.saved agent.deleted mcp.saved mcp.deleted
    grant.enrolled grant.revoked grant.suspended token.revoked
"""

LINES = GOLDEN.read_bytes().splitlines()


def test_the_catalogue_has_the_table_of_the_specification() -> None:
    assert set(TABLE.split()) <= set(PAYLOADS)


def test_the_golden_log_has_an_event_of_every_type_of_the_catalogue() -> None:
    assert {orjson.loads(line)["type"] for line in LINES} == set(PAYLOADS)


@pytest.mark.parametrize("line", LINES, ids=lambda line: orjson.loads(line)["type"])
def test_stored_data_parses_and_is_written_again_as_it_was(line: bytes) -> None:
    stored = orjson.loads(line)
    assert parse(stored["type"], stored["data"]).wire() == stored["data"]


@pytest.mark.parametrize("line", LINES, ids=lambda line: orjson.loads(line)["type"])
def test_stored_bytes_are_written_again_to_the_byte(line: bytes) -> None:
    """The hash chain is over these bytes, so their order and spelling are part of the format."""
    stored = orjson.loads(line)
    again = NewEvent(
        parse(stored["type"], stored["data"]),
        run_id=stored["run_id"],
        turn_id=stored["turn_id"],
        step=stored["step"],
        trust=Trust.from_wire(stored["trust"]),
    )
    event = placed(
        again, conversation_id=stored["conversation_id"], seq=stored["seq"], at=stored["at"]
    )
    assert event.body == line


def test_an_unknown_type_is_an_error_of_its_own() -> None:
    """F47: a type of a later release leaves its run untouched and reported."""
    with pytest.raises(UnknownEventType, match=r"'run\.teleported'"):
        parse("run.teleported", {})


def test_data_with_an_unknown_field_does_not_parse() -> None:
    with pytest.raises(ValidationError, match="planet"):
        parse("run.started", {"attempt": 1, "worker": "w", "planet": "mars"})


def test_a_field_without_a_default_must_be_there() -> None:
    with pytest.raises(ValidationError, match="worker"):
        parse("run.started", {"attempt": 1})


def test_a_payload_cannot_be_changed() -> None:
    started = RunStarted(attempt=1, worker="w")
    with pytest.raises(ValidationError, match="frozen"):
        started.attempt = 2  # type: ignore[misc]  # the test is that this fails


def test_a_run_ends_with_one_of_three_types() -> None:
    assert sorted(TERMINAL) == ["run.cancelled", "run.completed", "run.failed"]
