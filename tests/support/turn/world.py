"""A run in memory, driven turn by turn as the run service would drive it.

    world = World([reply(called("c1", "post", {}))], MemoryTool("post", asks=True))
    paused = await world.turn()
    ended = await world.turn(approval_decisions=[approve(paused.pending_approvals[0])])

Between two turns the world does the service's part: it marks open calls from the journal and keeps
the approvals that are open.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from app.engine.agent_run import AgentRun
from app.engine.messages import AssistantMessage
from app.engine.turn_content import tool_calls
from app.log.calls import (
    DelegateCompleted,
    DelegateStarted,
    MessageAssistant,
    ToolCompleted,
    ToolFailed,
    ToolSettled,
    ToolStarted,
)
from app.log.payload import WorkerPayload
from app.log.runs import StepDiscarded, StepStarted
from app.turn.agent import BoundAgent
from app.turn.execution.worker import Assignment
from app.turn.model.reply import answer_executed, answer_settled, replay_reply
from app.turn.options import ApprovalDecision, ApprovalOverride, RunTurnOptions, VerifiedAnswer
from app.turn.run import run_turn
from app.turn.transcript import CallMark, LoggedCall, Note, StoredWorker, Transcript, TurnSoFar
from tests.support.turn.journal import MemoryJournal, SleeperClock
from tests.support.turn.provider import PreparedProvider
from tests.support.turn.tools import MemoryTool, MemoryTools

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.engine.commands import PendingToolCall
    from app.engine.messages import Message
    from app.engine.streaming.items import StreamItem
    from app.log.calls import ReplyPart
    from app.policy.capability import CapabilitySet
    from app.turn.ports import Fact, Provider
    from app.turn.result import PendingApproval, PendingQuestion, TurnResult

RUN_ID = "run_1"


class World:
    """One run; its parts may be replaced between two turns."""

    def __init__(
        self,
        replies: Sequence[Sequence[StreamItem | Exception]],
        *tools: MemoryTool,
        agent: BoundAgent | None = None,
        history: Sequence[Message] = (),
    ) -> None:
        self.prepared = PreparedProvider(replies)
        self.provider: Provider = self.prepared
        self.tools = MemoryTools(*tools)
        self.agent = agent or BoundAgent(name="tester", model="prepared", instructions="Be brief.")
        self.journal = MemoryJournal()
        self.clock = SleeperClock()
        self.run = AgentRun.new("do it").with_history(tuple(history))
        if self.agent.output_schema is not None:
            self.run.with_output_validation(self.agent.output_schema, 1)
        self.turns = 0
        self.results: list[TurnResult] = []
        self.asked: dict[str, str] = {}
        self.notes: tuple[Note, ...] = ()
        # What a lost worker process had counted of the turn that goes on.
        self.steps_in_turn = 0
        self.so_far = TurnSoFar()
        self.interrupted_attempt: int | None = None
        # What the log knows of open calls beyond what the journal shows, for every one of them.
        self.known_of_calls: dict[str, Any] = {}
        # How often each worker has paused, by the call id of its delegation.
        self.worker_pauses: Counter[str] = Counter()

    @property
    def turn_id(self) -> str:
        """The id of the latest turn."""
        return f"turn_{self.turns}"

    async def turn(self, **options: Any) -> TurnResult:
        """Drive one turn with these options."""
        options.setdefault("clock", self.clock)
        self.turns += 1
        result = await run_turn(
            self.provider,
            self.tools,
            self.agent,
            self.transcript(),
            RunTurnOptions(**options),
            run_id=RUN_ID,
            turn_id=self.turn_id,
            journal=self.journal,
        )
        for pending in result.pending_approvals:
            self.asked.setdefault(pending.call_id, f"appr_{pending.call_id}")
        for question in result.pending_questions:
            self.asked.setdefault(question.call_id, f"ques_{question.call_id}")
        self.worker_pauses.update(paused.worker.call_id for paused in result.paused_workers)
        self.results.append(result)
        return result

    def crash(self, kept: int) -> None:
        """Lose everything but the first `kept` facts; the run is rebuilt from these alone."""
        facts = self.journal.facts[:kept]
        self.journal.commits = [tuple(facts)]
        self.run = rebuilt(own_facts(facts), output_schema=self.agent.output_schema)
        self.interrupted_attempt = interrupted(own_facts(facts))

    def transcript(self) -> Transcript:
        """The run as the log has it."""
        return Transcript(
            run=self.run,
            turn_number=self.turns,
            user_text="do it",
            open_calls=tuple(self._open_calls(own_facts(self.journal.facts), self.run)),
            notes=self.notes,
            interrupted_attempt=self.interrupted_attempt,
            steps_in_turn=self.steps_in_turn,
            so_far=self.so_far,
            workers=self._workers(),
        )

    def _workers(self) -> dict[str, StoredWorker]:
        """The workers that have begun and have no end in the journal."""
        ended = {one.call_id for one in self.journal.of(DelegateCompleted)}
        return {
            fact.payload.call_id: self._worker(fact, fact.payload)
            for fact in self.journal.facts
            if isinstance(fact.payload, DelegateStarted) and fact.payload.call_id not in ended
        }

    def _worker(self, begun: Fact, payload: DelegateStarted) -> StoredWorker:
        facts = own_facts(self.journal.facts, payload.call_id)
        given = Assignment.decode(begun.private or b"")
        run = rebuilt(facts, given.prompt)
        transcript = replace(
            given.transcript(payload.call_id),
            run=run,
            turn_number=1 + self.worker_pauses[payload.call_id],
            open_calls=tuple(self._open_calls(facts, run)),
            interrupted_attempt=interrupted(facts),
        )
        tainted = any(fact.trust.taints for fact in (begun, *facts))
        return StoredWorker(
            transcript=transcript, is_tainted=tainted, shared_paths=given.shared_paths
        )

    def _open_calls(self, facts: Sequence[Fact], run: AgentRun) -> list[LoggedCall]:
        pending = run.pending_tool_calls()
        if not pending:
            return []
        emitted = next(f for f in reversed(facts) if isinstance(f.payload, MessageAssistant))
        assert isinstance(emitted.payload, MessageAssistant)
        return [
            self._logged(part, open_call.position, emitted.turn_id, run)
            for part in _calls(emitted.payload.content)
            for open_call in pending
            if open_call == _open_or_none(run, part.call_id or "")
        ]

    def _logged(
        self, part: ReplyPart, position: int, turn_id: str | None, run: AgentRun
    ) -> LoggedCall:
        call_id, tool, request_id = part.call_id or "", part.tool or "", part.request_id or ""
        starts = [one for one in self.journal.of(ToolStarted) if one.call_id == call_id]
        asked = self.asked.get(call_id)
        mark = CallMark.WAITING if asked is None else CallMark.ASKED
        logged = LoggedCall(
            call_id=call_id,
            request_id=request_id,
            tool=tool,
            position=position,
            turn_id=turn_id or f"turn_{call_id.split('_')[1]}",
            step=run.turn(),
            mark=CallMark.STARTED if starts else mark,
            attempts=len(starts),
            approval_id=asked,
        )
        return replace(logged, **self.known_of_calls)


def own_facts(facts: Sequence[Fact], worker: str | None = None) -> list[Fact]:
    """What the turn itself stated, or the worker behind a delegation."""
    return [fact for fact in facts if _worker_of(fact) == worker]


def _worker_of(fact: Fact) -> str | None:
    ref = fact.payload.worker if isinstance(fact.payload, WorkerPayload) else None
    return None if ref is None else ref.call_id


def rebuilt(
    facts: Sequence[Fact],
    said: str = "do it",
    output_schema: Mapping[str, object] | None = None,
) -> AgentRun:
    """The run as the log alone gives it back, without input history."""
    run = AgentRun.new(said)
    if output_schema is not None:
        run.with_output_validation(output_schema, 1)
    for fact in facts:
        match fact.payload:
            case MessageAssistant() if fact.private is not None:
                replay_reply(run, fact.private)
            case ToolCompleted(call_id=call_id, result=text):
                run.answer_tool_calls([answer_executed(_open(run, call_id), text)])
            case ToolFailed(call_id=call_id, error=text):
                run.answer_tool_calls([answer_executed(_open(run, call_id), text)])
            case ToolSettled(call_id=call_id, result=text) if run.pending_tool_calls():
                run.answer_tool_calls([answer_settled(_open(run, call_id), text)])
            case _:
                pass
    return run


def _open(run: AgentRun, call_id: str) -> PendingToolCall:
    """The open call of that id; the last part of an id is its place among the batch's calls."""
    found = _open_or_none(run, call_id)
    assert found is not None, call_id
    return found


def _open_or_none(run: AgentRun, call_id: str) -> PendingToolCall | None:
    reply = run.messages()[run.projection_start()]
    assert isinstance(reply, AssistantMessage)
    position, _ = tool_calls(reply.content)[int(call_id.rpartition("_")[2])]
    return next((call for call in run.pending_tool_calls() if call.position == position), None)


def interrupted(facts: Sequence[Fact]) -> int | None:
    """The attempt that was under way when the log ended."""
    attempt = None
    for fact in facts:
        match fact.payload:
            case StepStarted(attempt=begun):
                attempt = begun
            case MessageAssistant() | StepDiscarded():
                attempt = None
            case _:
                pass
    return attempt


def _calls(parts: Sequence[ReplyPart]) -> list[ReplyPart]:
    return [part for part in parts if part.type == "tool_call"]


def approve(
    pending: PendingApproval,
    *,
    turn_id: str = "turn_1",
    edit: str = "",
    note: str = "",
    covered: CapabilitySet | None = None,
    sandbox_mode: str | None = None,
) -> ApprovalDecision:
    """The approval of a card as it stands, or with an edit and a note."""
    return ApprovalDecision(
        turn_id=pending.occurrence_turn_id or turn_id,
        call_id=pending.call_id,
        request_id=pending.request_id,
        tool_name=pending.tool_name,
        args_json=pending.args_json,
        approved=True,
        approval_id=f"appr_{pending.call_id}",
        override=ApprovalOverride(edit, note) if edit or note else None,
        decided_by=("alice",),
        covered=pending.missing if covered is None else covered,
        sandbox_mode=sandbox_mode,
        outcome_unknown=pending.outcome_unknown,
    )


def answer(pending: PendingQuestion, *, turn_id: str = "turn_1", **said: Any) -> VerifiedAnswer:
    """An answer to an open question: its first option, unless something else is said."""
    chosen = {"selected_index": 0, "selected_label": pending.question.options[0].label}
    return VerifiedAnswer(
        turn_id=pending.occurrence_turn_id or turn_id,
        call_id=pending.call_id,
        index=pending.index,
        args_sha256=sha256(pending.arguments_json.encode()).hexdigest(),
        answered_by="alice",
        **({"outcome": "answered"} | (said or chosen)),
    )


def deny(
    pending: PendingApproval, *, turn_id: str = "turn_1", expired: bool = False
) -> ApprovalDecision:
    """The denial of a card."""
    return replace(approve(pending, turn_id=turn_id), approved=False, expired=expired)
