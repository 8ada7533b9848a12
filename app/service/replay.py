"""Where a run stands: its AgentRun and its open calls, from the last checkpoint and the log.

The log is the truth and the checkpoint a short cut: without one, or with one that does not load,
the same AgentRun is rebuilt from the run's events. A turn that resumes after a pause and one that
takes over from a dead worker start from here alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from app.engine.agent_run import AgentRun
from app.engine.errors import InvalidRunDocument, UnsupportedRunFormat
from app.engine.messages import AssistantMessage, ToolCall
from app.log.queries import LogScope
from app.policy.capability import NO_CAPABILITIES
from app.service.active_time import ActiveTime
from app.service.history import HISTORY_EVENTS, fold_history, result_text, user_message
from app.service.open_questions import OpenQuestions
from app.turn.options import ApprovalOverride
from app.turn.reply import answer_executed, answer_settled, replay_reply
from app.turn.transcript import CallMark, LoggedCall, Note, Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from app.engine.commands import PendingToolCall
    from app.engine.messages import Message
    from app.log.envelope import Event
    from app.log.records import RunRecord
    from app.service.ports import Session
    from app.turn.options import ApprovalDecision

RUN_EVENTS: Final = (
    "run.created",
    "message.user",
    "run.started",
    "run.resumed",
    "run.paused",
    "run.checkpointed",
    "step.started",
    "step.discarded",
    "message.assistant",
    "approval.requested",
    "approval.resolved",
    "question.asked",
    "question.answered",
    "dispatch.mutated",
    "tool.started",
    "tool.completed",
    "tool.failed",
    "tool.settled",
)
# A turn that pauses, or completes a step, has got somewhere; one that only began has not.
PROGRESS_EVENTS: Final = ("run.started", "run.resumed", "run.paused", "step.completed")
_AFTER_CONVERSATION_CREATED: Final = 2
# How often in a row an answer that does not match its schema is asked for again.
OUTPUT_RETRIES: Final = 1


@dataclass(slots=True)
class Standing:
    """What the log says of a run so far.

    A turn ends with a pause or with its run: a worker that takes over from a dead one goes on in
    the same turn, so `turns` are those that paused, and `turn_began` is when the open one began.
    """

    run: AgentRun
    user_text: str
    turns: int = 0
    turn_began: datetime | None = None
    executed: set[str] = field(default_factory=set)
    batch: dict[str, LoggedCall] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)
    interrupted_attempt: int | None = None
    settled: list[str] = field(default_factory=list)
    questions: OpenQuestions = field(default_factory=OpenQuestions)
    active: ActiveTime = field(default_factory=ActiveTime)

    def requests(self) -> dict[str, str]:
        """The requests, open or decided, that are about the next start of an open call."""
        return {
            call_id: call.approval_id
            for call_id, call in self.batch.items()
            if call.approval_id is not None and call_id not in self.answered
        }

    def transcript(self) -> Transcript:
        """What the next turn starts from."""
        return Transcript(
            run=self.run,
            turn_number=self.turns + 1,
            user_text=self.user_text,
            open_calls=tuple(
                call for call_id, call in self.batch.items() if call_id not in self.answered
            ),
            notes=tuple(self.notes),
            interrupted_attempt=self.interrupted_attempt,
        )


async def standing(
    session: Session,
    run: RunRecord,
    events: Sequence[Event],
    *,
    decided: Mapping[str, ApprovalDecision],
    output_schema: Mapping[str, object] | None = None,
) -> Standing:
    """Fold the run from its RUN_EVENTS. `decided` are its verified decisions by approval id."""
    checkpoint, at = _checkpoint(events)
    if checkpoint is None:
        history = [] if opens_conversation(run) else await _history(session, run)
        said = next(event for event in events if event.type == "message.user")
        checkpoint = AgentRun.new(user_message(said.data)).with_history(history)
        if output_schema is not None:
            checkpoint.with_output_validation(output_schema, OUTPUT_RETRIES)
    fold = _Fold(checkpoint, at, decided)
    for event in events:
        fold.take(event)
    fold.standing.active.ended()
    return fold.standing


def opens_conversation(run: RunRecord) -> bool:
    """Whether the conversation had nothing in it before the run but its own beginning."""
    return run.created_seq == _AFTER_CONVERSATION_CREATED


async def _history(session: Session, run: RunRecord) -> list[Message]:
    log = LogScope(run.conversation_id)
    earlier = await session.events_of(log, HISTORY_EVENTS)
    return fold_history(earlier, before_run=run.id)


async def stalled_turns(session: Session, run: RunRecord) -> int:
    """How many turns in a row have begun and got nowhere; also of a run that does not fold."""
    scope = LogScope(run.conversation_id, run.id)
    stalled = 0
    for event in await session.events_of(scope, PROGRESS_EVENTS):
        stalled = stalled + 1 if event.type in {"run.started", "run.resumed"} else 0
    return stalled


def _checkpoint(events: Sequence[Event]) -> tuple[AgentRun | None, int]:
    """The newest document that loads, and its seq; the AgentRun of the whole log otherwise."""
    for event in reversed(events):
        if event.type == "run.checkpointed" and event.private is not None:
            try:
                return AgentRun.load(event.private), event.seq
            except (UnsupportedRunFormat, InvalidRunDocument):
                return None, 0
    return None, 0


class _Fold:
    """Takes a run's events in order; what the checkpoint holds already is not fed again."""

    def __init__(
        self, run: AgentRun, checkpoint_seq: int, decided: Mapping[str, ApprovalDecision]
    ) -> None:
        self.standing = Standing(run, "")
        self._checkpoint_seq = checkpoint_seq
        self._decided = decided
        self._injected: dict[str, str] = {}
        # Messages of the run up to and with the reply at hand, the prompt included.
        self._messages = 1
        self._folds: dict[str, Callable[[Event], None]] = {
            "message.user": self._said,
            "run.started": self._driven,
            "run.resumed": self._driven,
            "run.paused": self._paused,
            "run.checkpointed": self._loaded,
            "step.started": self._attempt_began,
            "step.discarded": self._attempt_taken_back,
            "message.assistant": self._reply,
            "approval.requested": self._asked,
            "approval.resolved": self._resolved,
            "question.asked": self._question_asked,
            "question.answered": lambda event: self.standing.questions.answered(event.data),
            "dispatch.mutated": self._mutated,
            "tool.started": self._started,
            "tool.completed": self._answered,
            "tool.failed": self._answered,
            "tool.settled": self._answered,
        }

    def take(self, event: Event) -> None:
        """Fold one event; one that has no fold says nothing about where a run stands."""
        fold = self._folds.get(event.type)
        if fold is not None:
            fold(event)
        self.standing.active.until = event.at

    def _said(self, event: Event) -> None:
        self.standing.user_text = "\n".join(part["text"] for part in event.data["content"])

    def _driven(self, event: Event) -> None:
        self.standing.turn_began = self.standing.turn_began or event.at
        self._nothing_settled()
        self.standing.active.began(event.at)

    def _paused(self, _event: Event) -> None:
        self.standing.turns += 1
        self.standing.turn_began = None
        self._nothing_settled()
        self.standing.active.ended()

    def _nothing_settled(self) -> None:
        self.standing.settled = []
        self.standing.questions.settled = []

    def _attempt_began(self, event: Event) -> None:
        self.standing.interrupted_attempt = event.data["attempt"]

    def _attempt_taken_back(self, _event: Event) -> None:
        self.standing.interrupted_attempt = None

    def _reply(self, event: Event) -> None:
        if event.private is None:
            return  # A reply that was cut off failed its run; the machine never took it.
        state = self.standing
        state.interrupted_attempt = None
        # What stands between two replies is one message: results, or what was wrong with an answer.
        self._messages += 1 if self._messages == 1 else 2
        calls = [part for part in event.data["content"] if part["type"] == "tool_call"]
        state.answered = set()
        state.batch = {
            call["call_id"]: LoggedCall(
                call_id=call["call_id"],
                request_id=call["request_id"],
                tool=call["tool"],
                position=index,
                turn_id=event.turn_id or "",
                step=event.step or 0,
            )
            for index, call in enumerate(calls)
        }
        if event.seq > self._checkpoint_seq:
            replay_reply(state.run, event.private)
            self._place()

    def _loaded(self, event: Event) -> None:
        if event.seq == self._checkpoint_seq:
            self._place()

    def _place(self) -> None:
        """Turn the order of the calls into their positions in the machine's own message."""
        state = self.standing
        if state.run.state() != "executing_tools":
            return
        reply = next(
            message
            for message in reversed(state.run.messages())
            if isinstance(message, AssistantMessage)
        )
        positions = [
            index for index, part in enumerate(reply.content) if isinstance(part, ToolCall)
        ]
        for call, position in zip(list(state.batch.values()), positions, strict=True):
            state.batch[call.call_id] = replace(call, position=position)

    def _asked(self, event: Event) -> None:
        call = self.standing.batch.get(event.data["call_id"])
        if call is not None:
            # A started call that is asked again stays started: only the re-run is being decided.
            mark = call.mark if call.mark is CallMark.STARTED else CallMark.ASKED
            self.standing.batch[call.call_id] = replace(
                call, mark=mark, approval_id=event.data["id"]
            )

    def _resolved(self, event: Event) -> None:
        self.standing.settled.append(event.data["approval_id"])
        call, data = self.standing.batch.get(event.data["call_id"]), event.data
        if call is None or call.approval_id != data["approval_id"]:
            return
        if data["status"] == "superseded":
            # A started call stays started, whatever it is asked about anew.
            mark = call.mark if call.mark is CallMark.STARTED else CallMark.WAITING
            self.standing.batch[call.call_id] = replace(call, mark=mark, approval_id=None)
        elif data["by"] == "session":
            # It is answered, so the turn that the session approval lets run need not say so again.
            self.standing.batch[call.call_id] = replace(call, approval_id=None)

    def _question_asked(self, event: Event) -> None:
        self.standing.questions.asked(event.data)
        call = self.standing.batch.get(event.data["call_id"])
        if call is not None:
            self.standing.batch[call.call_id] = replace(call, mark=CallMark.ASKED)

    def _started(self, event: Event) -> None:
        call_id = event.data["call_id"]
        self.standing.executed.add(call_id)
        call = self.standing.batch.get(call_id)
        if call is None:
            return
        attempt = event.data["attempt"]
        # This start used up its decision; one asked for from now on is about the next start.
        started = replace(call, mark=CallMark.STARTED, attempts=attempt, approval_id=None)
        decision = self._decided.get(call.approval_id or "")
        if decision is not None:
            override = decision.override or ApprovalOverride()
            self._note(override.injected_context)
            ran = call.started_args if call.mark is CallMark.STARTED else None
            started = replace(
                started,
                started_args=override.modified_args_json or ran,
                is_edited=bool(override.modified_args_json) or call.is_edited,
                sandbox_mode=decision.sandbox_mode,
                covered=decision.covered or NO_CAPABILITIES,
            )
        else:
            self._note(self._injected.pop(call_id, ""))
        self.standing.batch[call_id] = started

    def _mutated(self, event: Event) -> None:
        """What the rules make of a call that is about to start: other arguments, or a note."""
        call_id, changed = event.data["call_id"], (event.private or b"").decode()
        call = self.standing.batch.get(call_id)
        if call is not None and event.data["kind"] == "input_rewrite":
            self.standing.batch[call_id] = replace(call, started_args=changed)
        elif event.data["kind"] == "context_injection":
            self._injected[call_id] = changed

    def _note(self, text: str) -> None:
        """Keep a note, if there is one, where it belongs: behind the results of the open batch."""
        if text:
            self.standing.notes.append(Note(after_messages=self._messages + 1, text=text))

    def _answered(self, event: Event) -> None:
        state, call_id = self.standing, event.data["call_id"]
        call = state.batch.get(call_id)
        if call is None:
            return
        state.answered.add(call_id)
        decision = self._decided.get(call.approval_id or "")
        if decision is not None and not decision.approved and call.mark is not CallMark.STARTED:
            self._note((decision.override or ApprovalOverride()).injected_context)
        if event.seq > self._checkpoint_seq and state.run.state() == "executing_tools":
            pending = _pending(state.run, call.position)
            answer = answer_settled if event.type == "tool.settled" else answer_executed
            state.run.answer_tool_call(answer(pending, result_text(event)))


def _pending(run: AgentRun, position: int) -> PendingToolCall:
    return next(call for call in run.pending_tool_calls() if call.position == position)
