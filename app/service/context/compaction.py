"""Condensing a run's history: the summary written, the event that tells it, the fold it makes.

The turn says what is to be folded; here it is put into words, and into places of the log. A later
run of the conversation starts from the newest summary before it, a run that resumes from its own
(run-context.md 10).
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson
import structlog

from app.engine.compaction import estimated_tokens
from app.engine.json.arguments import sha256_hex
from app.engine.messages import AssistantMessage
from app.errors import LeaseLost, StoreUnavailable
from app.ids import Identity
from app.log.payload import delegation_of
from app.log.queries import LogScope
from app.log.runs import HistoryCompacted
from app.policy.taint import Trust
from app.runctx.blocks import compacted_history_block
from app.runctx.condense import condensed, items_of
from app.service.replay.history import HISTORY_EVENTS, Placed, fold_history, placed_input
from app.turn.folded import Compacted, CompactionSettings, Folded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.engine.messages import Message
    from app.log.envelope import Event
    from app.log.records import Lease
    from app.runctx.ports import Summarizer
    from app.service.agents.spec import AgentSpec, CompactionMember
    from app.service.ports.database import Database, Session
    from app.service.ports.memory import Summarizers
    from app.service.replay.history import Cut
    from app.turn.folded import Chunk

SUMMARY_S: Final = 30.0
_NOTICE: Final = "history.compaction_failed"

log = structlog.get_logger("turngate.history")


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary that stands for a log up to `through_seq`, but for the message at `pinned_seq`.

    `messages` and `pinned` are the same places among the messages of the run that made it.
    """

    run_id: str
    text: str
    is_tainted: bool
    from_seq: int
    through_seq: int
    pinned_seq: int | None
    messages: int
    pinned: int | None

    def of_own_run(self) -> Folded:
        """What the run that made it leaves out of its requests."""
        return Folded(block=self.block(), messages=self.messages, pinned=self.pinned)

    def of_earlier_run(self) -> Folded:
        """What a later run shows of it; its history begins after what is folded."""
        return Folded(block=self.block())

    def block(self) -> str:
        """The block of the prompt that holds it."""
        content = {"summary": self.text}
        return compacted_history_block(dict(content), is_tainted=self.is_tainted)


def _read_summary(event: Event) -> Summary:
    """The summary beside a `history.compacted`."""
    kept, data = orjson.loads(event.private or b"{}"), event.data
    return Summary(
        run_id=event.run_id or "",
        text=kept["summary"],
        is_tainted=event.trust.taints,
        from_seq=data["from_seq"],
        through_seq=data["through_seq"],
        pinned_seq=data["pinned_seq"],
        messages=kept["messages"],
        pinned=kept["pinned"],
    )


def own_summary(events: Sequence[Event]) -> Summary | None:
    """The newest summary among a run's own events."""
    found = [event for event in events if event.type == HistoryCompacted.TYPE]
    return _read_summary(found[-1]) if found else None


def shown_of(own: Summary | None, began_with: Summary | None) -> Folded | None:
    """What a run leaves out of its requests, by the newest of its summaries."""
    if own is not None:
        return own.of_own_run()
    return None if began_with is None else began_with.of_earlier_run()


async def newest_summary(session: Session, conversation_id: str) -> Summary | None:
    """The newest summary of a conversation, for a run that begins.

    A run that replayed itself alone left one that stands for nothing of the others.
    """
    scope = LogScope(conversation_id)
    found = await session.latest(scope, HistoryCompacted.TYPE)
    if found is not None and _is_of_a_run_alone(found):
        every = await session.events_of(scope, [HistoryCompacted.TYPE])
        found = next((one for one in reversed(every) if not _is_of_a_run_alone(one)), None)
    return None if found is None else _read_summary(found)


def _is_of_a_run_alone(event: Event) -> bool:
    return bool(orjson.loads(event.private or b"{}").get("run_alone", False))


def kept_summary(summary: Summary) -> dict[str, Any]:
    """The summary that a run began with, as it is kept with its context."""
    return asdict(summary)


def summary_of(kept: Mapping[str, Any]) -> Summary:
    """The summary that was kept."""
    return Summary(**kept)


@dataclass(frozen=True, slots=True)
class Compaction:
    """What condensing takes of the house."""

    database: Database
    summarizers: Summarizers

    def compactor(
        self, lease: Lease, spec: AgentSpec, *, began_with: Summary | None, own: Summary | None
    ) -> HistoryCompactor | None:
        """The compactor of a leased run, whose newest summaries are given, if it wants one."""
        if not spec.memory.compaction.enabled:
            return None
        return HistoryCompactor(
            database=self.database,
            summarizer=self.summarizers.of(spec.model),
            lease=lease,
            member=spec.memory.compaction,
            replays_conversation=spec.memory.replays_conversation,
            began_with=began_with,
            summary=own or began_with,
        )


@dataclass(slots=True)
class HistoryCompactor:
    """The port `Compactor` for one leased run.

    `began_with` is what an earlier run left it, `summary` the newest one there is.
    """

    database: Database
    summarizer: Summarizer
    lease: Lease
    member: CompactionMember
    replays_conversation: bool
    began_with: Summary | None
    summary: Summary | None

    @property
    def settings(self) -> CompactionSettings:
        """When history is condensed, and how much of it stays."""
        return CompactionSettings(
            max_messages=self.member.max_messages,
            keep_messages=self.member.keep_messages,
            window_share=self.member.window_share,
        )

    async def compacted(self, chunk: Chunk) -> Compacted | None:
        """The chunk condensed, merged with the summary before; None where that failed."""
        prior = "" if self.summary is None else self.summary.text
        items = items_of(chunk.messages[at] for at in chunk.places)
        text = await self._written(prior, items)
        if not text:
            return None
        made = await self._placed(chunk, text)
        payload = HistoryCompacted(
            reason=chunk.reason,
            from_seq=made.from_seq,
            through_seq=made.through_seq,
            pinned_seq=made.pinned_seq,
            messages=len(chunk.places),
            tokens_before=chunk.tokens_before,
            tokens_after=chunk.tokens_kept + estimated_tokens(text),
            summary_sha256=sha256_hex(text.encode()),
            prior_sha256=sha256_hex(prior.encode()) if prior else None,
            model=self.summarizer.model,
        )
        self.summary = made
        kept = {"summary": text, "messages": made.messages, "pinned": made.pinned}
        private = orjson.dumps(kept if self.replays_conversation else kept | {"run_alone": True})
        trust = Trust.QUARANTINED_CONTENT if made.is_tainted else Trust.UNSPECIFIED
        return Compacted(payload, private, trust, made.of_own_run())

    async def _written(self, prior: str, items: Sequence[str]) -> str:
        """The summary's text; blank where there is none to be had, which is told and absorbed."""
        run = self.lease.run
        identity = Identity(self.lease.tenant, run.principal, run.conversation_id, run.id)
        try:
            async with asyncio.timeout(SUMMARY_S):
                answer = await self.summarizer.summarize(prior, items, identity=identity)
        except (LeaseLost, StoreUnavailable):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the run goes on unsummarised
            log.warning(_NOTICE, run=run.id, kind=type(error).__name__)
            return ""
        text = condensed(answer, prior=prior, items=items)
        if not text:
            log.warning(_NOTICE, run=run.id, kind="blank")
        return text

    async def _placed(self, chunk: Chunk, text: str) -> Summary:
        """The summary, with the places in the log of what it stands for."""
        run, prior = self.lease.run, self.summary
        scope = LogScope(run.conversation_id, None if self.replays_conversation else run.id)
        async with self.database.session(self.lease.tenant) as session:
            events = await session.events_of(scope, HISTORY_EVENTS)
        places = _places(events, run.id, chunk.messages, after=self.began_with)
        since = places[chunk.places[0]].seq - 1 if prior is None else prior.through_seq
        through = places[chunk.cut].seq - 1
        was_tainted = prior is not None and prior.is_tainted
        return Summary(
            run_id=run.id,
            text=text,
            is_tainted=was_tainted
            or any(event.trust.taints for event in events if since < event.seq <= through),
            from_seq=since + 1,
            through_seq=through,
            pinned_seq=None if chunk.pinned is None else places[chunk.pinned].said_seq,
            messages=chunk.cut,
            pinned=chunk.pinned,
        )


def _places(
    events: Sequence[Event], run_id: str, messages: Sequence[Message], *, after: Cut | None
) -> list[Placed]:
    """Where in the log each message of the run's transcript stands, those of earlier runs first."""
    places = fold_history(events, before_run=run_id, after=after)
    own = [event for event in events if event.run_id == run_id and not delegation_of(event.data)]
    replies = (event for event in own if event.type == "message.assistant")
    said = next(event for event in own if event.type == "message.user")
    began = next(event for event in own if event.type == "run.started")
    places.append(placed_input(said, at=began.seq))
    for message in messages[len(places) :]:
        is_reply = isinstance(message, AssistantMessage)
        # What answers a reply stands right behind it.
        seq = next(replies).seq if is_reply else places[-1].seq + 1
        places.append(Placed(message, seq))
    return places
