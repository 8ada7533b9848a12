"""One open call as a turn handles it, live or left over from an earlier turn.

Its arguments are read from the text the model sent, by the one strict reader (turn.md 3.3): the
parsed object of the transcript has already lost duplicate keys and the spelling of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.engine.json.arguments import Arguments, Malformed, parse_arguments
from app.turn.transcript import CallMark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.commands import PendingToolCall
    from app.engine.messages import ToolCall
    from app.turn.transcript import LoggedCall, Transcript

ARGUMENTS_TEXT: Final = "arguments_text"
NO_ARGUMENTS: Final = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A call without a result. `logged` is what the log knows of it; None: emitted in this turn."""

    call_id: str
    turn_id: str
    pending: PendingToolCall
    args: Arguments | Malformed
    logged: LoggedCall | None = None

    @property
    def request_id(self) -> str:
        """The provider's id, which may repeat."""
        return self.pending.tool_call.id

    @property
    def tool(self) -> str:
        """The name the model used."""
        return self.pending.tool_call.name

    @property
    def is_dangling(self) -> bool:
        """Whether an earlier turn, or a lost worker, left the call behind."""
        return self.logged is not None

    @property
    def is_asked(self) -> bool:
        """Whether its request for approval is open or decided."""
        return self.logged is not None and self.logged.mark is CallMark.ASKED

    @property
    def has_open_request(self) -> bool:
        """Whether somebody is being asked still; a session approval may have answered already."""
        return self.logged is not None and self.logged.approval_id is not None

    @property
    def start(self) -> LoggedCall | None:
        """What the log knows of a recorded start, after which its effect may have happened."""
        is_started = self.logged is not None and self.logged.mark is CallMark.STARTED
        return self.logged if is_started else None

    @property
    def is_started(self) -> bool:
        """Whether a start was recorded."""
        return self.start is not None

    @property
    def attempts(self) -> int:
        """How many starts the log holds."""
        return 0 if self.logged is None else self.logged.attempts


def sent_text(call: ToolCall) -> str:
    """The argument text as the model sent it; absent text means no arguments."""
    match (call.additional_params or {}).get(ARGUMENTS_TEXT):
        case str() as text:
            return text if text.strip() else NO_ARGUMENTS
        case _:
            return call.arguments_text


def read_arguments(call: ToolCall) -> Arguments | Malformed:
    """The arguments of a call, or why they are malformed."""
    return parse_arguments(sent_text(call))


def last_arguments(start: LoggedCall, proposed: Arguments) -> Arguments:
    """What a started call ran with: the proposal, unless the log has other arguments."""
    if start.started_args is None:
        return proposed
    ran = parse_arguments(start.started_args)
    return ran if isinstance(ran, Arguments) else proposed


def live_calls(
    pending: Sequence[PendingToolCall], transcript: Transcript, *, turn_id: str
) -> list[OpenCall]:
    """The calls of the reply that has just arrived, in source order."""
    return [
        OpenCall(
            call_id=transcript.call_id(call.turn, index),
            turn_id=turn_id,
            pending=call,
            args=read_arguments(call.tool_call),
        )
        for index, call in enumerate(pending)
    ]


def dangling_calls(
    pending: Sequence[PendingToolCall], logged: Sequence[LoggedCall]
) -> list[OpenCall]:
    """The open calls of the batch at hand, each with what the log knows of it.

    Raises KeyError for a call the log does not know: log and AgentRun have come apart.
    """
    by_position = {call.position: call for call in logged}
    return [
        OpenCall(
            call_id=known.call_id,
            turn_id=known.turn_id,
            pending=call,
            args=read_arguments(call.tool_call),
            logged=known,
        )
        for call in pending
        for known in (by_position[call.position],)
    ]
