"""Generated runs of plain turns, and every byte that leaves them (turn.md 2.1, I16).

A script says what the model emits and what people say of each card. It is made by choosing: a
property test lets hypothesis choose, the corpus chooses by digests of a seed, so that it depends on
nothing but this file.

    python -m tests.turn.plain_runs

writes the corpus, `tests/golden/plain_runs.jsonl`, again. Its bytes change only where the form
of requests, records or results does.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields, is_dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import orjson
from pydantic import BaseModel

from app.engine.messages import AssistantMessage, AssistantText, UserMessage
from app.log.envelope import NewEvent, placed
from app.turn.ports import DispatchDeny, FailureKind, ProviderError, ToolInvocation, ToolOutcome
from app.turn.result import EndedBy
from tests.support.turn.provider import called, reply, said, thought
from tests.support.turn.tools import EGRESS, POST, WRITE, MemoryTool
from tests.support.turn.world import RUN_ID, World, approve, deny

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.engine.streaming.items import StreamItem
    from app.turn.options import ApprovalDecision
    from app.turn.ports import Fact, ModelRequest
    from app.turn.result import PendingApproval, TurnResult

T = TypeVar("T")

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "plain_runs.jsonl"
RUNS: Final = 50
ENDED: Final = "2026-11-29T12:00:00.000Z"

# Ids and arguments repeat; some arguments are malformed, some break the schema of `strict`.
ARGUMENTS: Final = (
    '{"n":1}',
    '{"n":1.0}',
    '{"n":-0.0, "a":"é"}',
    "{}",
    "{",
    '{"n":1,"n":2}',
    "[1]",
)
ASKING: Final = ("post", "post", "inbox", "fetch")
# The last four nobody has, or they belong to features that are off.
OTHERS: Final = (
    *("read", "write", "fails", "raises", "strict", "vetoed"),
    *("nope", "ask_question", "__delegate_to", "__handoff_to"),
)
SHAPES: Final = (*["ordinary"] * 15, *["broken"] * 2, "capped", "insisting")
ANSWERS: Final = ("approve", "edit", "note", "deny", "expire", "later")


class Choose(Protocol):
    """Whoever chooses one of these."""

    def __call__(self, among: Sequence[T], /) -> T: ...


@dataclass(slots=True)
class SeededChoice:
    """Chooses by the digests of a seed and a count."""

    seed: int
    made: int = 0

    def __call__(self, among: Sequence[T], /) -> T:
        self.made += 1
        digest = sha256(f"{self.seed}/{self.made}".encode()).digest()
        return among[int.from_bytes(digest) % len(among)]


@dataclass(frozen=True, slots=True)
class Emitted:
    """One reply of the model: `calls` are wire ids, tools and argument texts."""

    thought: str
    text: str
    calls: tuple[tuple[str | None, str, str], ...] = ()
    breaks: FailureKind | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A run before it is played; who has no answer left approves."""

    has_history: bool
    replies: tuple[Emitted, ...]
    answers: tuple[str, ...]


def script_by(choose: Choose) -> Script:
    """A run of any of the shapes."""
    shape = choose(SHAPES)
    answers = tuple(choose(ANSWERS) for _ in range(choose(range(7))))
    match shape:
        case "capped":
            # More steps than a plain turn has; who says nothing is asked for a closing completion.
            call = (choose(("c1", None)), choose(("read", "inbox", "fails")), ARGUMENTS[0])
            replies = [Emitted("", choose(("", "Still at it.")), (call,))] * 9
        case "insisting":
            # What was denied is emitted again, until the closing completion drops it.
            replies = [Emitted("Hm.", "", (("c1", "post", choose(ARGUMENTS[:3])),))] * 5
            answers = (choose(("deny", "expire")),)
        case _:
            replies = [_emitted(choose) for _ in range(choose((0, 1, 1, 2)))]
            replies.append(Emitted(choose(("", "So.")), "That is all."))
    if shape == "broken":
        replies[-1] = replace(replies[-1], breaks=choose((FailureKind.AUTH, FailureKind.OTHER)))
    return Script(choose((False, True)), tuple(replies), answers)


def _emitted(choose: Choose) -> Emitted:
    calls = tuple(
        (
            choose(("c1", "c2", None)),
            choose(choose((ASKING, OTHERS))),
            choose(choose((ARGUMENTS[:1], ARGUMENTS))),
        )
        for _ in range(choose((1, 1, 2, 3)))
    )
    return Emitted(choose(("", "Hm.")), choose(("", "Let me look.")), calls)


async def played(script: Script, **options: Any) -> World:
    """The run, driven to its end: every turn with these options and the decisions people made."""
    world = _world(script)
    answers = iter(script.answers)
    result = await world.turn(**options)
    while result.ended_by is EndedBy.PAUSE:
        decisions = [
            decision
            for card in result.pending_approvals
            if (decision := _decision(card, next(answers, "approve"), world.turn_id)) is not None
        ]
        result = await world.turn(**options | {"approval_decisions": decisions})
    return world


def _world(script: Script) -> World:
    return World(
        [_reply(emitted) for emitted in script.replies],
        MemoryTool("read"),
        MemoryTool("write", WRITE),
        MemoryTool("inbox", ingests=True),
        MemoryTool("fetch", EGRESS),
        MemoryTool("post", POST, asks=True),
        MemoryTool("fails", body=_failing),
        MemoryTool("raises", body=_raising),
        MemoryTool("strict", parameters={"type": "object", "required": ["n"]}),
        MemoryTool("vetoed", decision=DispatchDeny("not on Sundays")),
        history=[
            UserMessage.of_text("before"),
            AssistantMessage(content=(AssistantText(text="yes?"),)),
        ]
        if script.has_history
        else [],
    )


async def _failing(call: ToolInvocation) -> ToolOutcome:
    return ToolOutcome(text='{"error":"no such file"}', code="tool_failed")


async def _raising(call: ToolInvocation) -> ToolOutcome:
    raise OSError("the disk is full")


def _reply(emitted: Emitted) -> list[StreamItem | Exception]:
    items: list[StreamItem | Exception] = [
        *([thought(emitted.thought)] if emitted.thought else []),
        *([said(emitted.text)] if emitted.text else []),
        *(called(*call, position=at) for at, call in enumerate(emitted.calls)),
    ]
    match emitted.breaks:
        case None:
            return reply(*items)
        case FailureKind.AUTH:
            return [ProviderError(FailureKind.AUTH, "expected another key")]
        case kind:
            return [*items, ProviderError(kind, "the connection was lost")]


def _decision(card: PendingApproval, answer: str, turn_id: str) -> ApprovalDecision | None:
    match answer:
        case "approve":
            return approve(card, turn_id=turn_id)
        case "edit":
            return approve(card, turn_id=turn_id, edit='{"n":9}')
        case "note":
            return approve(card, turn_id=turn_id, note="Only this once.")
        case "deny" | "expire":
            return deny(card, turn_id=turn_id, expired=answer == "expire")
        case _:
            return None


def bytes_of(world: World) -> list[bytes]:
    """All that left the turns, nothing left out: requests, results, what the log got, the run."""
    facts = world.journal.facts
    return [
        *(_json(request) for request in world.prepared.requests),
        *(_json(result) for result in world.results),
        *(_record(fact, seq) for seq, fact in enumerate(facts, start=1)),
        *(fact.private or b"" for fact in facts),
        _json([len(commit) for commit in world.journal.commits]),
        world.run.dump_json().encode(),
    ]


def _record(fact: Fact, seq: int) -> bytes:
    """The wire text of the fact, which is what is hashed, stored and sent."""
    new = NewEvent(fact.payload, RUN_ID, fact.turn_id, fact.step, fact.trust, fact.private)
    return placed(new, conversation_id="conv_1", seq=seq, at=ENDED).body


def corpus() -> Iterator[bytes]:
    """The lines of the golden file: of each run what people said, and what left the turns.

    A message stands once in a run and is named by its place; of a request stands what differs from
    the request before it in the file.
    """
    before: dict[str, Any] = {}
    for seed in range(RUNS):
        script = script_by(SeededChoice(seed))
        world = asyncio.run(played(script))
        known: dict[bytes, int] = {}
        requests = [_members(request, known) for request in world.prepared.requests]
        results = [_members(result, known) for result in world.results]
        ended = sha256(world.run.dump_json().encode()).hexdigest()
        messages = [*map(orjson.Fragment, known)]
        yield _json(
            {"run": seed, "answers": script.answers, "document": ended, "messages": messages}
        )
        for now in requests:
            changes = {name: own for name, own in now.items() if before.get(name, ...) != own}
            yield _json({"request": changes})
            before = now
        for commit in world.journal.commits:
            yield _json({"commit": [_stated(fact) for fact in commit]})
        yield from (_json({"result": result}) for result in results)


def _members(value: ModelRequest | TurnResult, known: dict[bytes, int]) -> dict[str, Any]:
    """All members; each message as its place among the known ones, to which new ones are added."""
    places = [known.setdefault(_json(message), len(known)) for message in value.messages]
    return {item.name: getattr(value, item.name) for item in fields(value)} | {"messages": places}


def _stated(fact: Fact) -> list[Any]:
    digest = None if fact.private is None else sha256(fact.private).hexdigest()
    return [fact.payload.TYPE, fact.step, fact.trust.wire, fact.payload.wire(), digest]


def _json(value: object) -> bytes:
    return orjson.dumps(value, default=_plain, option=orjson.OPT_PASSTHROUGH_DATACLASS)


def _plain(value: object) -> object:
    match value:
        case BaseModel():
            return value.model_dump(mode="json")
        case frozenset():
            return sorted(value)
        case _ if is_dataclass(value):
            return {item.name: getattr(value, item.name) for item in fields(value)}
        case _:
            raise TypeError(type(value).__name__)


if __name__ == "__main__":
    GOLDEN.write_bytes(b"".join(line + b"\n" for line in corpus()))
