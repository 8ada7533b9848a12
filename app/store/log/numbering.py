"""Numbering: events get their seq, their exact bytes, their hash, and the changes they make.

All of it follows from the tail they are put after, without the database. If the tail has moved
meanwhile, the batch is numbered again on the new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import orjson

from app.log.catalogue import TURN_ENDS
from app.log.envelope import placed, wire_time
from app.store.projections.changes import rounds
from app.store.projections.fact import Fact
from app.store.projections.rules import is_projected, project
from app.store.texts import escape, searchable
from app.trust.chain import GENESIS, link
from app.trust.seal import Seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    import asyncpg

    from app.log.envelope import Event, NewEvent
    from app.store.projections.changes import Change, Round

    # Signs a stretch of a log; the event that says so is the next one of the log.
    Sealer = Callable[[Seal], NewEvent]

Row = tuple[dict[str, Any], bytes, bytes | None, bytes, bytes]


@dataclass(frozen=True, slots=True)
class Tail:
    """Where a log ends: what the next event follows, and whether any event so far taints.

    `sealed` is the last event that a seal covers, 0 before the first seal.
    """

    seq: int = 0
    hash: bytes = GENESIS
    tainted: bool = False
    sealed: int = 0

    def as_row(self) -> tuple[int, bytes, bool, int]:
        """The tail's columns, in their order."""
        return self.seq, self.hash, self.tainted, self.sealed

    @staticmethod
    def of(row: asyncpg.Record, prefix: str = "") -> Tail:
        """The tail of a conversation's row."""
        names = ("head_seq", "head_hash", "tainted", "sealed_seq")
        return Tail(*(row[prefix + name] for name in names))


@dataclass(frozen=True, slots=True)
class UnderLease:
    """What an append asks of the conversation's lease, unless its row is locked, and does to it.

    With a `lone_run` it is written only if no other run of the conversation is open.
    """

    generation: int | None = None
    releases: bool = False
    lone_run: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Numbered events of one conversation, and what they do to its projections."""

    conversation_id: str
    before: Tail
    after: Tail
    events: tuple[Event, ...]
    rows: tuple[Row, ...]
    plan: tuple[Round, ...]
    lease: UnderLease


def whole_ms(at: datetime) -> datetime:
    """The time as the wire shows it, so that a rebuild finds the same one."""
    return at - timedelta(microseconds=at.microsecond % 1000)


def numbered(
    conversation_id: str,
    tail: Tail,
    parts: Iterable[tuple[Sequence[NewEvent], datetime]],
    *,
    seal: Sealer,
    always: bool = False,
    lease: UnderLease = UnderLease(),
) -> Batch:
    """Give events their place after `tail`; those that end a turn are sealed, `always` all."""
    placing = _Placing(conversation_id, tail)
    for news, moment in parts:
        placing.put(news, wire_time(moment))
    if always or placing.ends_turn:
        placing.seal(seal)
    return Batch(
        conversation_id,
        tail,
        placing.tail,
        tuple(placing.events),
        tuple(placing.rows),
        tuple(rounds(placing.changes)),
        lease,
    )


@dataclass(slots=True)
class _Placing:
    """The end of a log as events are put to it."""

    conversation_id: str
    tail: Tail
    events: list[Event] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    at: str = ""

    def put(self, news: Iterable[NewEvent], at: str) -> None:
        """Put events at the end, as of one moment in wire time."""
        seq, last, tainted = self.tail.seq, self.tail.hash, self.tail.tainted
        for new in news:
            seq += 1
            event = placed(new, conversation_id=self.conversation_id, seq=seq, at=at)
            before, last = last, link(last, event.body, event.private)
            tainted = tainted or event.trust.taints
            self.events.append(event)
            self.rows.append(_row(event, at, before, last))
            if is_projected(new):
                self.changes += project(Fact(event, new.payload, at, tainted))
        self.tail, self.at = Tail(seq, last, tainted, self.tail.sealed), at

    @property
    def ends_turn(self) -> bool:
        """Whether a turn has ended with these events."""
        return any(event.type in TURN_ENDS for event in self.events)

    def seal(self, sealed: Sealer) -> None:
        """Seal everything since the last seal."""
        first, last = self.tail.sealed + 1, self.tail.seq
        stretch = Seal(self.conversation_id, first, last, last - first + 1, self.tail.hash.hex())
        self.put([sealed(stretch)], self.at)
        self.tail = replace(self.tail, sealed=last)


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
