"""Driving a run by hand: turns in a few words, and steps that must be of one kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine.agent_run import AgentRun
from app.engine.commands import CallModel, CallTools, Done, ModelTurn, PromptResponse
from app.engine.messages import (
    AssistantText,
    Function,
    ProviderIds,
    Reasoning,
    ReasoningText,
    ToolCall,
    ToolResult,
    ToolResultText,
)
from app.engine.streaming.items import PartialStreamedTurn, StreamedInvalidToolCall, StreamedTurn
from app.engine.turn_policy import TurnPolicy
from app.engine.usage import FinishReason, Usage

if TYPE_CHECKING:
    from app.engine.commands import ModelTurnOutcome
    from app.engine.messages import AssistantContent, Message

ADD = TurnPolicy(executable_tools=("add",))


def text(content: str) -> AssistantText:
    return AssistantText(text=content)


def thought(content: str) -> Reasoning:
    return Reasoning(content=(ReasoningText(text=content),))


def call(call_id: str, name: str = "add", **arguments: object) -> ToolCall:
    """A well-formed call; the arguments are {"x": 1} unless given."""
    return ToolCall(
        id=call_id,
        provider=ProviderIds(call_id=call_id),
        function=Function(name=name, arguments=arguments or {"x": 1}),
    )


def malformed(call_id: str, raw: str = "[1]", name: str = "add") -> ToolCall:
    return ToolCall(
        id=call_id,
        provider=ProviderIds(call_id=call_id),
        function=Function(name=name, arguments={}, invalid_arguments=raw),
    )


def result(call_id: str, content: str, name: str = "add") -> ToolResult:
    return ToolResult(
        call=call_id,
        provider=ProviderIds(call_id=call_id),
        name=name,
        content=(ToolResultText(text=content),),
    )


def tokens(taken: int, made: int) -> Usage:
    return Usage(input_tokens=taken, output_tokens=made, total_tokens=taken + made)


def turn(
    *content: AssistantContent,
    policy: TurnPolicy = ADD,
    usage: Usage | None = None,
    finish: FinishReason | None = None,
    raw: object = None,
) -> ModelTurn:
    return ModelTurn(
        choice=content, policy=policy, usage=usage or Usage(), finish_reason=finish, raw=raw
    )


def streamed(*content: AssistantContent, policy: TurnPolicy = ADD) -> StreamedTurn:
    return StreamedTurn(choice=content, policy=policy)


def stopped_at(
    bad: ToolCall, *before: ToolCall, said: str | None = None, policy: TurnPolicy = ADD
) -> tuple[PartialStreamedTurn, StreamedInvalidToolCall]:
    """A stream that came as far as an invalid call."""
    partial = PartialStreamedTurn(text=said, tool_calls=before)
    return partial, StreamedInvalidToolCall(
        tool_call=bad, internal_call_id="internal", args=bad.arguments_text, policy=policy
    )


def started(max_turns: int = 1, prompt: str = "question") -> AgentRun:
    """A run whose first model call is out."""
    run = AgentRun.new(prompt).max_turns(max_turns)
    expect_call_model(run)
    return run


def answered(run: AgentRun, *content: AssistantContent) -> ModelTurnOutcome:
    """Feed a turn of the default policy."""
    return run.model_response(turn(*content))


def in_batch(*calls: AssistantContent, max_turns: int = 2) -> AgentRun:
    """A run with an open tool batch."""
    run = started(max_turns)
    answered(run, *calls)
    expect_call_tools(run)
    return run


def expect_call_model(run: AgentRun) -> CallModel:
    step = run.next_step()
    assert isinstance(step, CallModel)
    return step


def expect_call_tools(run: AgentRun) -> CallTools:
    step = run.next_step()
    assert isinstance(step, CallTools)
    return step


def expect_done(run: AgentRun) -> PromptResponse:
    step = run.next_step()
    assert isinstance(step, Done)
    return step.response


def result_texts(message: Message) -> list[str]:
    """The texts of the tool results of a message, in order."""
    assert message.role == "user"
    return [
        content.text
        for part in message.content
        if isinstance(part, ToolResult)
        for content in part.content
        if isinstance(content, ToolResultText)
    ]
