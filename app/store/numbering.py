"""Numbering: events get their seq, their exact bytes, their hash, and the changes they make.

All of it follows from the tail they are put after, without the database. If the tail has moved
meanwhile, the batch is numbered again on the new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import orjson

from app.log.envelope import placed, wire_time
from app.store.changes import rounds
from app.store.projection_fact import Fact
from app.store.projections import is_projected, project
from app.store.texts import escape, searchable
from app.trust.chain import GENESIS, link

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from app.log.envelope import Event, NewEvent
    from app.store.changes import Change, Round

Row = tuple[dict[str, Any], bytes, bytes | None, bytes, bytes]


@dataclass(frozen=True, slots=True)
class Tail:
    """Where a log ends: what the next event follows, and whether any event so far taints."""

    seq: int = 0
    hash: bytes = GENESIS
    tainted: bool = False

    def as_row(self) -> tuple[int, bytes, bool]:
        """The tail's columns, in their order."""
        return self.seq, self.hash, self.tainted


@dataclass(frozen=True, slots=True)
class Batch:
    """Numbered events of one conversation, fenced by `generation` unless its row is locked.

    With a `lone_run` they are written only if no other run of the conversation is open.
    """

    conversation_id: str
    before: Tail
    after: Tail
    events: tuple[Event, ...]
    rows: tuple[Row, ...]
    plan: tuple[Round, ...]
    generation: int | None = None
    releases: bool = False
    lone_run: str | None = None


def whole_ms(at: datetime) -> datetime:
    """The time as the wire shows it, so that a rebuild finds the same one."""
    return at - timedelta(microseconds=at.microsecond % 1000)


def numbered(
    conversation_id: str,
    tail: Tail,
    parts: Iterable[tuple[Sequence[NewEvent], datetime]],
    *,
    generation: int | None = None,
    releases: bool = False,
    lone_run: str | None = None,
) -> Batch:
    """Give events their place after `tail`."""
    seq, last, tainted = tail.seq, tail.hash, tail.tainted
    events: list[Event] = []
    rows: list[Row] = []
    changes: list[Change] = []
    for news, moment in parts:
        wire_at = wire_time(moment)
        for new in news:
            seq += 1
            event = placed(new, conversation_id=conversation_id, seq=seq, at=wire_at)
            before, last = last, link(last, event.body, event.private)
            tainted = tainted or event.trust.taints
            events.append(event)
            rows.append(_row(event, wire_at, before, last))
            if is_projected(new):
                changes += project(Fact(event, new.payload, wire_at, tainted))
    return Batch(
        conversation_id,
        tail,
        Tail(seq, last, tainted),
        tuple(events),
        tuple(rows),
        tuple(rounds(changes)),
        generation,
        releases,
        lone_run,
    )


_DATA: Final = b'"data":'


def _row(event: Event, at: str, before: bytes, own: bytes) -> Row:
    """The columns of an event: one JSON object, and the bytes that JSON cannot hold."""
    # A quote inside a JSON string is escaped, so the first `"data":` is the member itself.
    data = event.body[event.body.index(_DATA) + len(_DATA) : -1].decode()
    columns = {
        "conversation_id": event.conversation_id,
        "seq": event.seq,
        "run_id": None if event.run_id is None else escape(event.run_id),
        "turn_id": None if event.turn_id is None else escape(event.turn_id),
        "step": event.step,
        "type": event.type,
        "trust": int(event.trust),
        "at": at,
        "data": orjson.Fragment(searchable(data)),
    }
    return columns, event.body, event.private, before, own
