"""The request of one model call, built from the AgentRun's command (turn.md 3.2, 7.4).

Notes for the model alone stand in requests only, right after the results of their batch; the
AgentRun never holds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.engine.messages import AssistantMessage, UserMessage
from app.policy.capability import Capability
from app.turn import texts
from app.turn.folded import shown_places
from app.turn.ports import ModelRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.commands import CallModel
    from app.engine.messages import Message
    from app.turn.native_files import NativeFile
    from app.turn.state.context import TurnCtx
    from app.turn.transcript import Note

FIRST_STEP: Final = 1


def model_request(ctx: TurnCtx, command: CallModel, *, is_closing: bool) -> ModelRequest:
    """What is sent for a step; the closing completion may neither call nor search."""
    inherited = len(ctx.run.input_history())
    own = _with_attachments(ctx, command, (*command.history[inherited:], command.prompt))
    notes = (*ctx.transcript.notes, *ctx.notes)
    return ModelRequest(
        model=ctx.agent.model,
        instructions=_instructions(ctx, is_closing=is_closing),
        messages=_shown(ctx, (*command.history[:inherited], *own), notes, inherited=inherited),
        tools=ctx.specs.all if ctx.output is None else (*ctx.specs.all, ctx.output.spec),
        calls_allowed=not is_closing,
        cache_hint=ctx.options.cache_hint,
        web_search=not is_closing and _may_search(ctx),
        user_text=ctx.transcript.user_text,
        replies=sum(isinstance(message, AssistantMessage) for message in own),
        now_unix_ms=ctx.now_unix_ms,
        context=_blocks(ctx),
        files=_files(ctx, command),
    )


def _with_attachments(
    ctx: TurnCtx, command: CallModel, own: tuple[Message, ...]
) -> tuple[Message, ...]:
    """The run's messages, the first of which is its input, with what is attached to that."""
    attached, said = ctx.agent.attachments, own[0]
    if attached is None or not isinstance(said, UserMessage):
        return own
    parts = attached.opening if command.turn == FIRST_STEP else attached.later
    return (UserMessage(content=(*said.content, *parts)), *own[1:])


def _files(ctx: TurnCtx, command: CallModel) -> tuple[NativeFile, ...]:
    """The files that the first step's messages name."""
    attached = ctx.agent.attachments
    return () if attached is None or command.turn != FIRST_STEP else attached.files


def _instructions(ctx: TurnCtx, *, is_closing: bool) -> str:
    """The agent's own; where the answer has a form and no tool to give it by, the form as well."""
    if ctx.output is None or not is_closing:
        return ctx.agent.instructions
    return f"{ctx.agent.instructions}\n\n{texts.answer_as_text(ctx.output.spec.parameters)}".strip()


def _may_search(ctx: TurnCtx) -> bool:
    """Native search, by the same comparison as for any call; no grant by tool name applies."""
    egress = Capability.ARBITRARY_EGRESS
    return (
        ctx.options.native_search_allowed
        and egress in ctx.agent.execution_ceiling
        and egress in ctx.granted
    )


def _blocks(ctx: TurnCtx) -> tuple[str, ...]:
    """The blocks of the run, and the one that stands for folded messages after them."""
    return ctx.agent.context if ctx.folded is None else (*ctx.agent.context, ctx.folded.block)


def _shown(
    ctx: TurnCtx, messages: Sequence[Message], notes: Sequence[Note], *, inherited: int
) -> Sequence[Message]:
    """The messages that are not folded, each of the run's own with the notes that belong to it."""
    if ctx.folded is None and not notes:
        return messages
    shown: list[Message] = []
    for at in shown_places(ctx.folded, len(messages)):
        shown.append(messages[at])
        after = at + 1 - inherited
        shown += [UserMessage.of_text(note.text) for note in notes if note.after_messages == after]
    if isinstance(shown[0], AssistantMessage):
        # Some providers refuse a transcript that the model's own word begins.
        shown.insert(0, UserMessage.of_text(texts.BEGINNING_FOLDED))
    return shown
