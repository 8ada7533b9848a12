"""One turn, from everything that goes into it to everything that came of it.

Whatever a turn needs is made anew from its inputs, so that the same inputs can be driven twice.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

from structlog.testing import capture_logs

from app.log.calls import DispatchMutated
from app.service.replay.standing import standing
from app.tools.executors.forwarding import ForwardingExecutor
from app.turn.agent import BoundAgent
from app.turn.options import DelegateDescriptor, RunTurnOptions
from app.turn.ports import DispatchAllow, DispatchDeny, Fact, ToolOutcome
from app.turn.run import run_turn
from tests.support.log.killed import Killed
from tests.support.log.records import run_record
from tests.support.turn.journal import SleeperClock
from tests.turn.machine.house import OF_WORKERS, executor
from tests.turn.machine.runlog import RUN, Death, Moment, RunLog, read_back
from tests.turn.machine.script import CLERKS, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.engine.agent_run import AgentRun
    from app.log.envelope import Event, NewEvent
    from app.service.ports.database import Session
    from app.turn.options import ApprovalDecision
    from app.turn.ports import DispatchMutation, ModelRequest, ToolExecutor, ToolInvocation
    from app.turn.result import TurnResult
    from app.turn.stream import TurnStreamEvent
    from tests.turn.machine.house import Policy
    from tests.turn.machine.script import Reply

MAX_STEPS, WORKER_STEPS, FANOUT, BUDGET = 5, 4, 2, 3
HUGE = "\N{EURO SIGN}" * 22_000


class Recording(StrEnum):
    """What becomes of mutations in a turn."""

    ABSENT = "nobody records"
    WORKS = "they are recorded"
    FAILS = "recording says no"
    RAISES = "recording breaks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All that goes into a turn. `before` is the log, `options` what people and agent say."""

    before: tuple[NewEvent, ...]
    turn_id: str
    replies: tuple[Reply, ...]
    orders: tuple[Reply, ...]
    policy: Policy
    decided: Mapping[str, ApprovalDecision]
    options: Mapping[str, Any]
    recording: Recording
    staffed: bool
    death: Death | None = None
    forwarded: bool = True
    off: bool = False


@dataclass(slots=True, repr=False)
class Taken:
    """What came of a turn; without a result its process is gone.

    `runs` have, of each execution, the call and how long the log was when it began; `recorded` of
    each mutation that was to be recorded, whether it was, how long the log was, and how many
    executions there had been. `left` is what the turn has left running behind it, `slept` are the
    waits it asked for, and `ahead` says how far a thread ran ahead of those who read along.
    `has_twin`: it has been driven a second time.
    """

    events: list[NewEvent]
    result: TurnResult | None = None
    run: AgentRun | None = None
    requests: list[ModelRequest] = field(default_factory=list)
    runs: list[tuple[ToolInvocation, int]] = field(default_factory=list)
    recorded: list[tuple[DispatchMutation, bool, int, int]] = field(default_factory=list)
    told: list[Mapping[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    artifacts: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    ahead: int = 0
    has_twin: bool = False


@dataclass(slots=True)
class SlowReader:
    """Takes each event after a while; `under_way` are those it has not taken yet, by thread."""

    under_way: Counter[str] = field(default_factory=Counter)
    most: int = 0

    async def send(self, event: TurnStreamEvent) -> None:
        """Returns when the event is taken, so that nothing has to wait beside it."""
        thread = event.worker.call_id if event.worker is not None else ""
        self.under_way[thread] += 1
        self.most = max(self.most, self.under_way[thread])
        try:
            await asyncio.sleep(0)
        finally:
            self.under_way[thread] -= 1


class _Turn:
    """The ports of one turn, and the turn itself."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.log = RunLog(inputs.turn_id, list(inputs.before), inputs.death)
        self.taken = Taken(self.log.events)
        self.models = [ScriptedModel(inputs.replies), *(ScriptedModel(inputs.orders) for _ in "ab")]
        self.clock = SleeperClock()
        self.reader = SlowReader()
        self.inside = 0

    async def body(self, call: ToolInvocation) -> ToolOutcome:
        """The body of every tool; its effect is that it is among the runs."""
        number = len(self.taken.runs)
        self.taken.runs.append((call, len(self.log.events)))
        self.inside += 1
        try:
            if self.inputs.death == Death(Moment.IN_TOOL, number):
                raise Killed
            # Later calls come back earlier, so that nothing is in order by chance.
            for _ in range(3 - number % 4):
                await asyncio.sleep(0)
        finally:
            self.inside -= 1
        if call.name == "raises":
            raise ValueError(call.name)
        return ToolOutcome(text=HUGE if call.name == "huge" else f"result of {call.call_id}")

    async def record(self, mutation: DispatchMutation) -> bool:
        """The recorder of mutations, as the service's: what it records stands in the log."""
        works = self.inputs.recording is Recording.WORKS
        at = (len(self.log.events), len(self.taken.runs))
        self.taken.recorded.append((mutation, works, *at))
        if self.inputs.recording is Recording.RAISES:
            raise OSError("disk")
        if works:
            await self.log.record(self._mutated(mutation))
        return works

    def _mutated(self, mutation: DispatchMutation) -> Fact:
        payload = DispatchMutated(
            call_id=mutation.call_id,
            tool=mutation.tool,
            kind=mutation.kind,
            original_sha256=mutation.original_sha256,
            mutated_sha256=hashlib.sha256(mutation.mutated.encode()).hexdigest(),
            rule=mutation.rule,
            worker=mutation.worker,
        )
        private = mutation.mutated.encode() if mutation.kind != "result_redaction" else None
        return Fact(payload, mutation.step, private=private, turn_id=mutation.turn_id)

    def options(self) -> RunTurnOptions:
        """What the inputs say, with the workers; what is off can be there and must not matter.

        Neither must who reads along. Of workers that is not asked: it moves which comes first.
        """
        given = dict(self.inputs.options)
        if self.inputs.recording is not Recording.ABSENT:
            given["dispatch_recorder"] = self
        if self.inputs.staffed:
            given |= {"delegate_descriptors": [self._worker(at) for at in range(len(CLERKS))]}
            given |= {"delegate_max_fanout": FANOUT, "delegate_turn_budget": BUDGET}
        elif self.inputs.off:
            given |= {"delegate_max_fanout": 1, "delegate_turn_budget": 0}
        return RunTurnOptions(
            max_steps=MAX_STEPS,
            default_max_steps=1 if self.inputs.off else None,
            escalate_sandbox_denials=self.inputs.policy.escalates_sandbox,
            clock=self.clock,
            stream_tx=self.reader if self._is_read_along() else None,
            **given,
        )

    def _is_read_along(self) -> bool:
        """Whether somebody reads along, as they must where it decides who waits for whom.

        A cancelled turn ends where it waits next, and workers take turns where they wait.
        """
        death = self.inputs.death
        is_cancelled = death is not None and death.moment is Moment.CANCEL
        return is_cancelled or self.inputs.staffed or not self.inputs.off

    def _worker(self, at: int) -> DelegateDescriptor:
        tools = executor(self.inputs.policy, self.body, OF_WORKERS)
        return DelegateDescriptor(
            agent_id=CLERKS[at],
            instructions="You are a clerk.",
            provider=self.models[1 + at],
            provider_name="scripted",
            model="small",
            tools=self.around(tools),
            tool_specs=tuple(tools.specs()),
            max_steps=WORKER_STEPS,
        )

    def around(self, tools: ToolExecutor) -> ToolExecutor:
        """The tools, within an executor that should make no difference, or not."""
        return ForwardingExecutor(tools) if self.inputs.forwarded else tools

    async def drive(self, events: list[Event]) -> None:
        """Fold the log, run the turn. Raises what a dying process raises."""
        inputs = self.inputs
        state = await standing(
            cast("Session", None), run_record(), events, decided=inputs.decided, earlier=None
        )
        tools = executor(inputs.policy, self.body)
        if inputs.off:
            _scramble(inputs, tools)
        self.taken.run = state.run
        agent = BoundAgent(
            name="tester",
            model="scripted",
            execution_ceiling=inputs.policy.ceiling,
            asks_questions=True,
        )
        self.taken.result = await run_turn(
            self.models[0],
            self.around(tools),
            agent,
            state.transcript(),
            self.options(),
            run_id=RUN,
            turn_id=inputs.turn_id,
            journal=self.log,
        )


def _scramble(inputs: Inputs, tools: Any) -> None:
    """Change everything that only a feature which is off would look at."""
    for tool in tools.by_name.values():
        if not inputs.policy.escalates_sandbox:
            tool.sandbox = not tool.sandbox
        if inputs.recording is Recording.ABSENT:
            tool.replacement = None
            if not isinstance(tool.decision, DispatchDeny):
                tool.decision = DispatchAllow()
    if not inputs.options["escape_hatch"]:
        tools.recoverable = [tools.by_name["read"].spec]


async def taken(inputs: Inputs, known: list[Event] | None = None) -> Taken:
    """Drive one turn; `known` are the events that were read back before, and are read on."""
    turn = _Turn(inputs)
    task = asyncio.current_task()
    assert task is not None
    turn.log.cancel = task.cancel
    with capture_logs() as told:
        try:
            await turn.drive(read_back(turn.log.events, [] if known is None else known))
            await asyncio.sleep(0)
        except (Killed, BaseExceptionGroup, asyncio.CancelledError):
            task.uncancel()
            turn.taken.result = None
    turn.taken.told = list(told)
    turn.taken.requests = [one for model in turn.models for one in model.requests]
    turn.taken.artifacts = [call_id for call_id, _ in turn.log.kept]
    turn.taken.left = _left(turn)
    turn.taken.slept, turn.taken.ahead = turn.clock.slept, turn.reader.most
    return turn.taken


def _left(turn: _Turn) -> list[str]:
    """What still goes on, though the turn has returned: streams, tools, tasks, words under way."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    streams = sum(model.open for model in turn.models)
    words = turn.reader.under_way.total()
    counted = {"stream": streams, "tool": turn.inside, "task": len(others), "word": words}
    return [what for what, many in counted.items() for _ in range(many)]


def twin(inputs: Inputs, known: list[Event], **changed: Any) -> Taken:
    """The same turn once more, or with what must make no difference changed."""
    return asyncio.run(taken(replace(inputs, **changed), list(known)))
