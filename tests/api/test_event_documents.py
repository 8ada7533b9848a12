"""Event documents describe what the log writes, type by type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator

from app.api.event_documents import EVENT_DOCUMENTS, Event
from app.log.catalogue import PAYLOADS

GOLDEN = Path(__file__).parents[1] / "golden" / "events.jsonl"
EVENTS: list[dict[str, Any]] = [orjson.loads(line) for line in GOLDEN.read_bytes().splitlines()]
SCHEMA = Draft202012Validator(Event.model_json_schema())


@pytest.mark.parametrize("event", EVENTS, ids=[f"{one['seq']} {one['type']}" for one in EVENTS])
def test_an_event_of_the_golden_log_fits_its_schema(event: dict[str, Any]) -> None:
    SCHEMA.validate(event)
    assert Event.model_validate(event).root.type == event["type"]


def test_every_type_has_a_document_of_its_own() -> None:
    assert EVENT_DOCUMENTS.keys() == PAYLOADS.keys()
    assert len({document.__name__ for document in EVENT_DOCUMENTS.values()}) == len(PAYLOADS)


def test_a_cut_event_names_its_cuts() -> None:
    [event] = [one for one in EVENTS if one["type"] == "conversation.created"]
    SCHEMA.validate(event | {"cut": ["/title"]})
    assert not SCHEMA.is_valid(event | {"cut": "/title"})
    assert not SCHEMA.is_valid({name: value for name, value in event.items() if name != "seq"})
