"""The envelope of an event: what the store numbers, hashes and keeps, and what readers get.

An event is serialised once. `body` is the exact JSON text of the wire event; that text is hashed,
stored, and sent in frames and pages. Only an event with long texts is written a second time, cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from app.engine.json.pointer import pointer_token
from app.log.upcasters import upcast
from app.policy.taint import Trust

if TYPE_CHECKING:
    from app.log.payload import Payload

CUT_TEXT_BYTES: Final = 64 * 1024
FRAME_BYTES: Final = 256 * 1024
# A cut event leaves room for what is around it in a frame or a page.
_SHOWN_BYTES: Final = FRAME_BYTES - 4 * 1024


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
        """The payload as parsed JSON, in the shape of this release."""
        return upcast(self.type, orjson.loads(self.body)["data"])

    @property
    def at(self) -> datetime:
        """When it was appended, in UTC."""
        return datetime.fromisoformat(orjson.loads(self.body)["at"])


def wire_time(at: datetime) -> str:
    """RFC 3339 in UTC with milliseconds and `Z`."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def placed(new: NewEvent, *, conversation_id: str, seq: int, at: str) -> Event:
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
    """The text for pages and frames: the body, or a copy that is cut (service.md 6).

    A text inside `data` over 64 KiB is cut, and `cut` names its JSON pointer. Where many shorter
    texts still exceed a frame, the bound is halved until the event fits. Where it is not the texts,
    lists and objects lose their members, the innermost first.
    """
    if len(event.body) <= CUT_TEXT_BYTES:
        return event.body
    document = orjson.loads(event.body)
    texts_suffice = len(_within(document, _TEXTS[-1])) <= _SHOWN_BYTES
    for bounds in _TEXTS if texts_suffice else _CONTAINERS:
        text = _within(document, bounds)
        if len(text) <= _SHOWN_BYTES:
            return text
    raise AssertionError("short texts and empty containers fit any frame")


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The most bytes that a text may have, and a list or an object; None is no bound."""

    text: int
    container: int | None = None


def _halved(bound: int, least: int) -> list[int]:
    return [bound >> times for times in range(bound.bit_length()) if bound >> times >= least]


_SHORT_TEXT: Final = 256
_TEXTS: Final = [_Bounds(bound) for bound in _halved(CUT_TEXT_BYTES, _SHORT_TEXT)]
# The last of them leaves `data` nothing but short texts and empty containers.
_CONTAINERS: Final = [_Bounds(_SHORT_TEXT, bound) for bound in (*_halved(CUT_TEXT_BYTES, 2), 0)]


def _within(document: dict[str, Any], bounds: _Bounds) -> bytes:
    pointers: list[str] = []
    data = {
        key: _cut(item, bounds, f"/{pointer_token(key)}", pointers)[0]
        for key, item in document["data"].items()
    }
    return orjson.dumps({**document, "data": data, **({"cut": pointers} if pointers else {})})


def _cut(value: Any, bounds: _Bounds, pointer: str, pointers: list[str]) -> tuple[Any, int]:
    """The value within the bounds, and about how many bytes it takes."""
    if isinstance(value, str):
        return _cut_text(value, bounds, pointer, pointers)
    if not isinstance(value, dict | list):
        return value, len(str(value)) + 1
    known = len(pointers)
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    kept: dict[str | int, Any] = {}
    size = 2
    for key, item in pairs:
        kept[key], taken = _cut(item, bounds, f"{pointer}/{pointer_token(str(key))}", pointers)
        size += taken + (len(key.encode()) + 4 if isinstance(key, str) else 0)
    if bounds.container is not None and size > bounds.container:
        pointers[known:] = [pointer]
        return type(value)(), 2
    return (kept if isinstance(value, dict) else list(kept.values())), size


def _cut_text(text: str, bounds: _Bounds, pointer: str, pointers: list[str]) -> tuple[str, int]:
    raw = text.encode()
    if len(raw) <= bounds.text:
        return text, len(raw) + 3
    pointers.append(pointer)
    return raw[: bounds.text].decode(errors="ignore"), bounds.text + 3
