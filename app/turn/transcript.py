"""The transcript a turn starts from: an AgentRun, and what the log knows of its open calls.

The run service builds it, from a checkpoint or from the log. A fresh run is in PreparingRequest;
one that paused or lost its worker in the middle of a batch waits in ExecutingTools.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from app.engine.messages import AssistantMessage
from app.engine.turn_content import joined_text
from app.policy.capability import NO_CAPABILITIES, CapabilitySet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.engine.agent_run import AgentRun
    from app.turn.folded import Folded
    from app.turn.ports import DispatchMutation


class CallMark(StrEnum):
    """What the log says of a call without a result (turn.md 1). A start outweighs a request."""

    ASKED = "asked"
    WAITING = "waiting"
    STARTED = "started"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCall:
    """A call of the batch that is still open.

    `position` is its place in the assistant message, as `AgentRun.pending_tool_calls` counts;
    `attempts` the number of starts recorded; `approval_id` the request that is open or decided.
    Of a started call, `started_args` are the canonical arguments that ran where these are not the
    proposal, `is_edited` if an approver changed them, `sandbox_mode` their mode; `is_ordered` if a
    person decided on the start, and `covered` what that decision covered. `mutations` are those
    recorded before a start.
    """

    call_id: str
    request_id: str
    tool: str
    position: int
    turn_id: str
    step: int
    mark: CallMark = CallMark.WAITING
    attempts: int = 0
    approval_id: str | None = None
    started_args: str | None = None
    is_edited: bool = False
    is_ordered: bool = False
    sandbox_mode: str | None = None
    covered: CapabilitySet = NO_CAPABILITIES
    mutations: tuple[DispatchMutation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note for the model alone, put right after the results of the batch it came with.

    `after_messages` counts the messages of the AgentRun that precede it.
    """

    after_messages: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSoFar:
    """What the limits of a turn had counted when the worker process that drove it was lost.

    `malformed_steps` are those in a row, the one at hand included; `denied` has the results of
    denied calls by name and canonical arguments. `recovered` are the tools that the escape hatch
    has put on offer, None while it has not fired.
    """

    malformed_steps: int = 0
    denial_reprompts: int = 0
    denied: Mapping[tuple[str, bytes], str] = field(default_factory=dict)
    recovered: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """`run` is driven in place: after the turn it holds the state to check-point.

    `turn_number` counts the turns of the run from 1 and, with the step, makes call ids unique.
    `interrupted_attempt` is the attempt of a step that was cut off without a reply, to be taken
    back; `user_text` the run's input; `steps_in_turn` counts the replies that a lost worker process
    got in this turn, which share its cap, as what was counted `so_far` shares its other limits.

    A worker's transcript is numbered `under` the call of its delegation. `workers` are those behind
    delegations that are open, by call id. Of the delegations dispatched before, `delegated_in_turn`
    counts those of this turn, which a lost worker process began, and `delegated_in_batch` those of
    the open batch that have their result. `folded` stands for messages that requests leave out.
    """

    run: AgentRun
    turn_number: int
    user_text: str
    open_calls: tuple[LoggedCall, ...] = ()
    notes: tuple[Note, ...] = ()
    interrupted_attempt: int | None = None
    steps_in_turn: int = 0
    so_far: TurnSoFar = field(default_factory=TurnSoFar)
    under: str = ""
    workers: Mapping[str, StoredWorker] = field(default_factory=dict)
    delegated_in_turn: int = 0
    delegated_in_batch: int = 0
    folded: Folded | None = None

    @property
    def steps_before(self) -> int:
        """The steps of earlier turns, which share no turn's cap but that of the run."""
        return steps_taken(self.run) - self.steps_in_turn

    @property
    def last_text(self) -> str:
        """What the newest reply of this turn said, if a lost worker process got one."""
        if not self.steps_in_turn:
            return ""
        replies = (
            one for one in reversed(self.run.messages()) if isinstance(one, AssistantMessage)
        )
        return joined_text(next(replies).content)

    def call_id(self, step: int, index: int) -> str:
        """Turngate's id of the call at `index` among those of a step; equal on a replay."""
        own = f"call_{self.turn_number}_{step}_{index}"
        return f"{self.under}/{own}" if self.under else own


def steps_taken(run: AgentRun) -> int:
    """The steps that have their reply; a run that asks for a better answer has begun the next."""
    return run.turn() - (run.state() == "awaiting_model")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWorker:
    """A worker that has begun and not come to its end (turn.md 7.1).

    `is_tainted`: it began tainted, or untrusted content has reached it since.
    """

    transcript: Transcript
    is_tainted: bool
    shared_paths: tuple[str, ...] = ()
