"""A run in memory, driven turn by turn as the run service would drive it.

    world = World([reply(called("c1", "post", {}))], MemoryTool("post", asks=True))
    paused = await world.turn()
    ended = await world.turn(approval_decisions=[approve(paused.pending_approvals[0])])

Between two turns the world does the service's part: it marks open calls from the journal and keeps
the approvals that are open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.engine.agent_run import AgentRun
from app.log.calls import MessageAssistant, ToolStarted
from app.turn.agent import BoundAgent
from app.turn.options import ApprovalDecision, ApprovalOverride, RunTurnOptions
from app.turn.run import run_turn
from app.turn.transcript import CallMark, LoggedCall, Note, Transcript
from tests.support.turn_journal import MemoryJournal, SteppedClock
from tests.support.turn_provider import PreparedProvider
from tests.support.turn_tools import MemoryTool, MemoryTools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.messages import Message
    from app.engine.streaming import StreamItem
    from app.log.calls import ReplyPart
    from app.policy.capability import CapabilitySet
    from app.turn.ports import Provider
    from app.turn.result import PendingApproval, TurnResult

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
        self.clock = SteppedClock()
        self.run = AgentRun.new("do it").with_history(tuple(history))
        self.turns = 0
        self.asked: dict[str, str] = {}
        self.notes: tuple[Note, ...] = ()
        self.interrupted_attempt: int | None = None

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
        return result

    def transcript(self) -> Transcript:
        """The run as the log has it."""
        return Transcript(
            run=self.run,
            turn_number=self.turns,
            user_text="do it",
            open_calls=tuple(self._open_calls()),
            notes=self.notes,
            interrupted_attempt=self.interrupted_attempt,
        )

    def _open_calls(self) -> list[LoggedCall]:
        pending = self.run.pending_tool_calls()
        if not pending:
            return []
        parts = _calls(self.journal.of(MessageAssistant)[-1].content)
        reply = self.run.messages()[self.run.projection_start()]
        positions = [
            position
            for position, part in enumerate(getattr(reply, "content", ()))
            if part.type == "tool_call"
        ]
        by_position = dict(zip(positions, parts, strict=True))
        return [self._logged(by_position[call.position], call.position) for call in pending]

    def _logged(self, part: ReplyPart, position: int) -> LoggedCall:
        call_id, tool, request_id = part.call_id or "", part.tool or "", part.request_id or ""
        starts = [one for one in self.journal.of(ToolStarted) if one.call_id == call_id]
        asked = self.asked.get(call_id)
        mark = CallMark.WAITING if asked is None else CallMark.ASKED
        return LoggedCall(
            call_id=call_id,
            request_id=request_id,
            tool=tool,
            position=position,
            turn_id=f"turn_{call_id.split('_')[1]}",
            step=self.run.turn(),
            mark=CallMark.STARTED if starts else mark,
            attempts=len(starts),
            approval_id=asked,
        )


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


def deny(
    pending: PendingApproval, *, turn_id: str = "turn_1", expired: bool = False
) -> ApprovalDecision:
    """The denial of a card."""
    return replace(approve(pending, turn_id=turn_id), approved=False, expired=expired)
