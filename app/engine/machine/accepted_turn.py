"""What a host may do to an accepted turn before the run goes on: replace it, or send it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from app.engine.commands import Feedback, Repeat
from app.engine.errors import PromptCancelled
from app.engine.machine.record import AwaitingAdvance, PreparingRequest
from app.engine.machine.transition import Raised
from app.engine.messages import AssistantMessage, UserMessage, UserText
from app.engine.turn_content import is_empty_turn, tool_calls

if TYPE_CHECKING:
    from app.engine.commands import RetryRequest
    from app.engine.machine.record import RunRecord
    from app.engine.machine.transition import Transition
    from app.engine.messages import AssistantContent


def retry_turn(record: RunRecord, request: RetryRequest) -> Transition[None]:
    """Ask for the turn again. A turn with calls is refused for good: they could run otherwise."""
    turn = _accepted(record, "retry_model_turn")
    if tool_calls(turn.items):
        reason = "tool-bearing model turns cannot be retried; use tool-call hooks instead"
        error = PromptCancelled(reason, chat_history=record.full_history())
        return Raised(record.failed(), error)
    match request:
        case Repeat():
            return record.entering(PreparingRequest()), None
        case Feedback(text=text):
            return _sent_back(record, turn, feedback=text), None
        case _:
            assert_never(request)


def replace_turn(record: RunRecord, content: tuple[AssistantContent, ...]) -> RunRecord:
    """Put tool-free content in place of a tool-free turn."""
    turn = _accepted(record, "replace_accepted_turn")
    if tool_calls(turn.items) or tool_calls(content):
        raise record.violation("replace_accepted_turn called with a tool-bearing turn")
    return record.entering(turn.model_copy(update={"items": content}))


def _accepted(record: RunRecord, method: str) -> AwaitingAdvance:
    if not isinstance(record.state, AwaitingAdvance):
        raise record.violation(f"{method} called without an accepted turn")
    return record.state


def _sent_back(record: RunRecord, turn: AwaitingAdvance, *, feedback: str) -> RunRecord:
    if not is_empty_turn(turn.items):
        rejected = AssistantMessage(id=turn.message_id, content=turn.items)
        return record.entering(PreparingRequest(), rejected, UserMessage.of_text(feedback))
    # Two user messages must never follow each other, so the feedback joins the last one.
    prompt = record.prompt()
    extended = UserMessage(content=(*prompt.content, UserText(text=feedback)))
    return record.replacing_prompt(extended).entering(PreparingRequest())
