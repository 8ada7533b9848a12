"""The fold of the events of one run, or of one worker: its AgentRun and its open calls.

Which events are folded, and from which AgentRun, is `standing`'s to say. A turn that resumes after
a pause and one that takes over from a dead worker process start from the same fold.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from app.engine.json.arguments import sha256_hex
from app.engine.messages import AssistantMessage, ToolCall
from app.policy.capability import NO_CAPABILITIES
from app.service.replay.active_time import ActiveTime
from app.service.replay.history import result_text, user_text
from app.service.replay.open_questions import OpenQuestions
from app.service.replay.open_turn import OpenTurn
from app.turn.model.reply import answer_executed, answer_settled, replay_reply
from app.turn.options import ApprovalOverride
from app.turn.ports import DispatchMutation
from app.turn.transcript import CallMark, LoggedCall, Note, StoredWorker, Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from app.engine.agent_run import AgentRun
    from app.engine.commands import PendingToolCall
    from app.log.envelope import Event
    from app.turn.folded import Folded
    from app.turn.options import ApprovalDecision


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
    steps_in_turn: int = 0
    settled: list[str] = field(default_factory=list)
    # Delegations that were dispatched: all of them, and how many in the turn that is open.
    delegated: set[str] = field(default_factory=set)
    delegated_in_turn: int = 0
    # The call of the delegation, of a worker; the workers behind open delegations, of a run.
    under: str = ""
    workers: dict[str, WorkerStanding] = field(default_factory=dict)
    worker_replies: list[Mapping[str, int]] = field(default_factory=list)
    questions: OpenQuestions = field(default_factory=OpenQuestions)
    folded: Folded | None = None
    active: ActiveTime = field(default_factory=ActiveTime)
    open_turn: OpenTurn = field(default_factory=OpenTurn)

    def requests(self) -> dict[str, str]:
        """The requests, open or decided, that are about the next start of an open call."""
        own = {
            call_id: call.approval_id
            for call_id, call in self.batch.items()
            if call.approval_id is not None and call_id not in self.answered
        }
        for worker in self.workers.values():
            own |= worker.standing.requests()
        return own

    def transcript(self) -> Transcript:
        """What the next turn starts from."""
        open_calls = tuple(
            call for call_id, call in self.batch.items() if call_id not in self.answered
        )
        # Of a reply that was no good as an answer, no call is carried out.
        executing = open_calls if self.run.state() == "executing_tools" else ()
        return Transcript(
            run=self.run,
            turn_number=self.turns + 1,
            user_text=self.user_text,
            open_calls=open_calls,
            notes=tuple(self.notes),
            interrupted_attempt=self.interrupted_attempt,
            steps_in_turn=self.steps_in_turn,
            so_far=self.open_turn.so_far([call.call_id for call in executing]),
            under=self.under,
            folded=self.folded,
            workers={call_id: worker.stored() for call_id, worker in self.workers.items()},
            delegated_in_turn=self.delegated_in_turn,
            delegated_in_batch=sum(
                call_id in self.delegated and call_id in self.answered for call_id in self.batch
            ),
        )


@dataclass(slots=True)
class WorkerStanding:
    """A worker that has begun and not come to its end."""

    standing: Standing
    is_tainted: bool
    shared_paths: tuple[str, ...]

    def stored(self) -> StoredWorker:
        """What its next turn starts from."""
        return StoredWorker(
            transcript=self.standing.transcript(),
            is_tainted=self.is_tainted,
            shared_paths=self.shared_paths,
        )


class RunFold:
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
            "retrieval.missed": lambda event: self.standing.open_turn.missed(event.data["offered"]),
            "delegate.started": self._delegated,
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
        self.standing.user_text = user_text(event.data)

    def _driven(self, event: Event) -> None:
        self.standing.turn_began = self.standing.turn_began or event.at
        self._nothing_settled()
        self.standing.active.began(event.at)

    def _paused(self, _event: Event) -> None:
        self.standing.turns += 1
        self.standing.turn_began = None
        self.standing.delegated_in_turn = 0
        self.standing.steps_in_turn = 0
        self.standing.open_turn.paused()
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
        state.steps_in_turn += 1
        # What stands between two replies is one message: results, or what was wrong with an answer.
        self._messages += 1 if self._messages == 1 else 2
        calls = [part for part in event.data["content"] if part["type"] == "tool_call"]
        state.open_turn.replied(calls)
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

    def _delegated(self, event: Event) -> None:
        self.standing.delegated.add(event.data["call_id"])
        self.standing.delegated_in_turn += 1

    def _started(self, event: Event) -> None:
        call_id = event.data["call_id"]
        self.standing.executed.add(call_id)
        call = self.standing.batch.get(call_id)
        if call is None:
            return
        # This start used up its decision; one asked for from now on is about the next start.
        started = replace(
            call,
            mark=CallMark.STARTED,
            attempts=event.data["attempt"],
            approval_id=None,
            started_args=_ran_with(call, event.data["args_sha256"]),
        )
        decision = self._decided.get(call.approval_id or "")
        if decision is not None:
            override = decision.override or ApprovalOverride()
            self._note(override.injected_context)
            started = replace(
                started,
                started_args=override.modified_args_json or started.started_args,
                is_edited=bool(override.modified_args_json) or call.is_edited,
                is_ordered=True,
                sandbox_mode=decision.sandbox_mode,
                covered=decision.covered or NO_CAPABILITIES,
            )
        else:
            self._note(self._injected.pop(call_id, ""))
        self.standing.batch[call_id] = started

    def _mutated(self, event: Event) -> None:
        """What the rules make of a call that is about to start: other arguments, or a note."""
        data = event.data
        call_id, kind, changed = data["call_id"], data["kind"], (event.private or b"").decode()
        call = self.standing.batch.get(call_id)
        if call is None or kind == "result_redaction":
            return
        recorded = DispatchMutation(
            kind=kind,
            call_id=call_id,
            tool=data["tool"],
            rule=data["rule"],
            step=event.step or 0,
            original_sha256=data["original_sha256"],
            mutated=changed,
        )
        self.standing.batch[call_id] = replace(call, mutations=(*call.mutations, recorded))
        if kind == "context_injection":
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
        if event.type == "tool.settled":
            state.open_turn.settled(event.data)
        decision = self._decided.get(call.approval_id or "")
        if decision is not None and not decision.approved and call.mark is not CallMark.STARTED:
            self._note((decision.override or ApprovalOverride()).injected_context)
        if event.seq > self._checkpoint_seq and state.run.state() == "executing_tools":
            pending = _pending(state.run, call.position)
            answer = answer_settled if event.type == "tool.settled" else answer_executed
            state.run.answer_tool_call(answer(pending, result_text(event)))


def _ran_with(call: LoggedCall, args_sha256: str) -> str | None:
    """The arguments of a start that are not the proposal, unless its decision edited them.

    A rewrite on record may not be what ran: a rule can be changed or dropped before the start.
    """
    if call.mark is CallMark.STARTED:
        return call.started_args
    rewrites = (one.mutated for one in call.mutations if one.kind == "input_rewrite")
    return next((text for text in rewrites if sha256_hex(text.encode()) == args_sha256), None)


def _pending(run: AgentRun, position: int) -> PendingToolCall:
    return next(call for call in run.pending_tool_calls() if call.position == position)
