"""What a log tells of runs, whoever drove them and however often they were tried: `told(log)`.

Two runs of the same story tell the same, event for event, with their payloads and what is kept
beside them. Ids are numbered as they come, and seqs are places in what is told. A process that dies
may leave this behind and nothing else:

* the resumption by another process, which settles nothing; that one goes on in the same turn, under
  an id of its own
* an attempt at a model call that was cut off, and the `step.discarded` that takes it back; the next
  attempt of the step counts on
* a second start of a call whose outcome nobody knows, with the same arguments under the same key;
  and before it, where the call has an effect, the pause in which somebody orders it once more, and
  which the results of other calls do not wait for

How streamed text was gathered is a matter of time. Seals are held by `is_whole`, and by `run_again`
that no call with an effect is started a second time without an order.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections import Counter
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any

from app.log.catalogue import TURN_ENDS
from tests.service.driving.delegating import RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from app.log.envelope import Event

_ID = re.compile(r"\b([a-z]+)_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SEQS = {"from_seq", "through_seq", "pinned_seq", "tainted_by"}
_DELTAS = {"text.delta", "reasoning.delta"}
_DRIVEN = ("run.started", "run.resumed")
# What no two runs have in common: who drove, what is signed over ids, what a memory numbers.
_OWN = {
    "run.started": {"attempt", "worker"},
    "run.resumed": {"attempt", "worker"},
    "dispatch.mutated": {"signature"},
    "memory.written": {"turn_id"},
}
_SIGNED = {"approval.decided", "question.answered"}


@dataclass(frozen=True)
class _Fact:
    """An event without its place and time."""

    type: str
    seq: int
    turn_id: str | None
    step: int | None
    trust: str
    data: dict[str, Any]
    private: str

    @staticmethod
    def of(event: Event, without: AbstractSet[str]) -> _Fact:
        own, private = _OWN.get(event.type, set()) | without, event.private or b""
        data = {member: value for member, value in event.data.items() if member not in own}
        if data.get("sha256") == sha256(private).hexdigest():
            data["sha256"] = "that of its document"
        return _Fact(
            event.type,
            event.seq,
            event.turn_id,
            event.step,
            event.trust.wire,
            data,
            "" if event.type in _SIGNED else private.decode(),
        )

    def but(self, **data: Any) -> _Fact:
        """The fact with other data."""
        return replace(self, data=self.data | data)

    @property
    def place(self) -> tuple[str, int | None]:
        """The worker that it is of, if it is one's, and the step."""
        return str(self.data.get("worker")), self.step


def told(log: Iterable[Event], *, without: AbstractSet[str] = frozenset()) -> list[str]:
    """A line for each event that no death has left behind, `without` some members of their data."""
    facts = [_Fact.of(event, without) for event in log if event.type != "log.sealed"]
    lost = {fact.data["call_id"] for fact in facts if _is_order_anew(fact)}
    driven = _without_orders_anew(facts)
    tried = [fact for fact in driven if not _is_takeover(fact)]
    kept = _without_starts_anew(_without_cut_attempts(tried))
    return _numbered(_gathered(_in_source_order(kept, lost)), _continued(driven))


def run_again(log: Sequence[Event]) -> set[str]:
    """The tools of calls that were started again without anybody's order."""
    asked = [event.data for event in log if event.type == "approval.requested"]
    orders = {card["id"] for card in asked if card["risk"]["outcome_unknown"]}
    starts = [event.data for event in log if event.type == "tool.started"]
    anew = [start for start in starts if start["attempt"] > 1]
    return {one["tool"] for one in anew if (one["covered_by"] or {}).get("id") not in orders}


def is_whole(log: Sequence[Event]) -> bool:
    """Whether seqs and each run's attempts have no gap, and a seal reaches to each turn's end."""
    ends = [event.seq for event in log if event.type in TURN_ENDS]
    seals = [(e.seq - 1, e.data["through_seq"]) for e in log if e.type == "log.sealed"]
    tried = Counter[str | None]()
    for event in log:
        tried[event.run_id] += event.type in _DRIVEN
        if event.type in _DRIVEN and event.data["attempt"] != tried[event.run_id]:
            return False
    seqs = [event.seq for event in log]
    return seals == [(seq, seq) for seq in ends] and seqs == [*range(1, len(log) + 1)]


def _without_cut_attempts(facts: Iterable[_Fact]) -> list[_Fact]:
    kept: list[_Fact] = []
    cut = Counter[tuple[str, int | None]]()
    for fact in facts:
        if fact.type == "step.discarded" and fact.data["reason"] == "interrupted":
            while (last := kept.pop()).type != "step.started":
                assert last.type in _DELTAS
            assert last.place == fact.place
            cut[fact.place] += 1
        elif fact.type in {"step.started", "step.discarded"}:
            kept.append(fact.but(attempt=fact.data["attempt"] - cut[fact.place]))
        else:
            kept.append(fact)
    return kept


def _is_order_anew(fact: _Fact) -> bool:
    return fact.type == "approval.requested" and bool(fact.data["risk"]["outcome_unknown"])


def _without_orders_anew(facts: Iterable[_Fact]) -> list[_Fact]:
    kept: list[_Fact] = []
    anew = set[str]()
    for fact in facts:
        data = fact.data
        if _is_order_anew(fact):
            anew.add(data["id"])
        elif data.get("approval_id") not in anew:
            named = data.get("approvals", [])
            others = [one for one in named if one not in anew]
            kept.append(fact if others == named else fact.but(approvals=others))
            if fact.type == "run.paused" and not _names(kept[-1]):
                kept.pop()
                while kept[-1].type == "run.checkpointed":
                    kept.pop()
    return kept


def _without_starts_anew(facts: Iterable[_Fact]) -> list[_Fact]:
    kept: list[_Fact] = []
    first: dict[str, dict[str, Any]] = {}
    for fact in facts:
        if fact.type == "tool.started":
            start = {**fact.data, "attempt": 1, "covered_by": None}
            if first.setdefault(start["call_id"], start) == start and fact.data["attempt"] > 1:
                continue
        kept.append(fact)
    return kept


def _in_source_order(facts: Iterable[_Fact], lost: AbstractSet[str]) -> list[_Fact]:
    ordered: list[_Fact] = []
    for is_result, group in groupby(facts, lambda fact: fact.type in RESULTS):
        batch = [*group]
        if is_result and any(fact.data["call_id"] in lost for fact in batch):
            batch.sort(key=lambda fact: str(fact.data["call_id"]))
        ordered += batch
    return ordered


def _is_takeover(fact: _Fact) -> bool:
    return fact.type == "run.resumed" and not _names(fact)


def _continued(facts: Iterable[_Fact]) -> dict[str, str]:
    """The ids of the turns with which another process goes on, each with that of its twin."""
    same: dict[str, str] = {}
    began = ""
    for fact in facts:
        if _is_takeover(fact):
            same[fact.turn_id or ""] = began
        elif fact.type in _DRIVEN:
            began = fact.turn_id or ""
    return same


def _names(fact: _Fact) -> bool:
    """Whether a pause or a resumption names an approval or a question."""
    return bool(fact.data["approvals"] or fact.data["questions"])


def _gathered(facts: Iterable[_Fact]) -> list[_Fact]:
    gathered: list[_Fact] = []
    for fact in facts:
        last = gathered[-1] if gathered else fact
        if fact.type in _DELTAS and (last.type, last.place) == (fact.type, fact.place):
            text = last.data["text"] + fact.data["text"]
            gathered[-1:] = [last.but(text=text)]
        else:
            gathered.append(fact)
    return gathered


def _numbered(facts: Sequence[_Fact], same: Mapping[str, str]) -> list[str]:
    names: dict[str, str] = {}
    counts = Counter[str]()

    def name(found: re.Match[str]) -> str:
        whole = same.get(found[0], found[0])
        if whole not in names:
            counts[found[1]] += 1
            names[whole] = f"{found[1]}-{counts[found[1]]}"
        return names[whole]

    seqs = [fact.seq for fact in facts]
    return [_ID.sub(name, _line(fact, seqs)) for fact in facts]


def _line(fact: _Fact, seqs: Sequence[int]) -> str:
    """The fact with the places of the events that it names."""
    data = dict(fact.data)
    for member in _SEQS & data.keys():
        named = data[member]
        if isinstance(named, list):
            data[member] = [bisect(seqs, seq) for seq in named]
        elif named is not None:
            data[member] = bisect(seqs, named)
    head = f"{fact.type} {fact.turn_id} {fact.step} {fact.trust}"
    return f"{head} {json.dumps(data)} {fact.private}"
