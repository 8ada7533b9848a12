"""The envelope of an event: what the store numbers, hashes and keeps, and what readers get.

An event is serialised once. `body` is the exact JSON text of the wire event; that text is hashed,
stored, and sent in frames and pages. Only an event with long texts is written a second time, cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from app.policy.taint import Trust

if TYPE_CHECKING:
    from app.log.payload import Payload

CUT_TEXT_BYTES: Final = 64 * 1024
FRAME_BYTES: Final = 256 * 1024
# Envelope of a frame or a page around the event; a cut event must leave room for it.
_ROOM: Final = 4 * 1024


@dataclass(frozen=True, slots=True)
class NewEvent:
    """A fact that is to be appended; the store gives it its seq."""

    payload: Payload
    run_id: str | None = None
    turn_id: str | None = None
    step: int | None = None
    trust: Trust = Trust.UNSPECIFIED
    private: bytes | None = None

    @property
    def type(self) -> str:
        """The wire tag."""
        return self.payload.TYPE


@dataclass(frozen=True, slots=True)
class Event:
    """A committed event. `body` is its exact wire text, `private` what no reader is shown."""

    conversation_id: str
    seq: int
    run_id: str | None
    turn_id: str | None
    step: int | None
    type: str
    trust: Trust
    body: bytes
    private: bytes | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The payload as parsed JSON."""
        data: dict[str, Any] = orjson.loads(self.body)["data"]
        return data

    @property
    def at(self) -> datetime:
        """When it was appended, in UTC."""
        return datetime.fromisoformat(orjson.loads(self.body)["at"])


def wire_time(at: datetime) -> str:
    """RFC 3339 in UTC with milliseconds and `Z`."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def seal_envelope(new: NewEvent, *, conversation_id: str, seq: int, at: str) -> Event:
    """The event with its place in the log; `at` is wire time."""
    body = orjson.dumps(
        {
            "conversation_id": conversation_id,
            "seq": seq,
            "run_id": new.run_id,
            "turn_id": new.turn_id,
            "step": new.step,
            "type": new.type,
            "at": at,
            "trust": new.trust.wire,
            "data": new.payload.wire(),
        }
    )
    return Event(
        conversation_id,
        seq,
        new.run_id,
        new.turn_id,
        new.step,
        new.type,
        new.trust,
        body,
        new.private,
    )


def shown(event: Event) -> bytes:
    """The text for pages and frames: the body, or a copy whose long texts are cut (service.md 6).

    A text inside `data` over 64 KiB is cut, and `cut` names its JSON pointer. Where many shorter
    texts still exceed a frame, the bound is halved until the event fits.
    """
    if len(event.body) <= CUT_TEXT_BYTES:
        return event.body
    bound = CUT_TEXT_BYTES
    while True:
        document = orjson.loads(event.body)
        pointers: list[str] = []
        document["data"] = _cut(document["data"], bound, "", pointers)
        if pointers:
            document["cut"] = pointers
        text = orjson.dumps(document)
        if len(text) <= FRAME_BYTES - _ROOM:
            return text
        bound //= 2


def _cut(value: Any, bound: int, pointer: str, pointers: list[str]) -> Any:
    if isinstance(value, str):
        raw = value.encode()
        if len(raw) <= bound:
            return value
        pointers.append(pointer)
        return raw[:bound].decode(errors="ignore")
    if isinstance(value, dict):
        return {
            key: _cut(item, bound, f"{pointer}/{_token(key)}", pointers)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _cut(item, bound, f"{pointer}/{index}", pointers) for index, item in enumerate(value)
        ]
    return value


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
