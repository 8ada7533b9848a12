"""The shorthand of agent-run-cases.json, read into the values it stands for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from app.engine import texts
from app.engine.commands import (
    Fail,
    Feedback,
    Ignore,
    InvalidToolCallAction,
    Repair,
    Repeat,
    Retry,
    RetryRequest,
    Skip,
    Stop,
)
from app.engine.messages import (
    AssistantContent,
    AssistantImage,
    AssistantMessage,
    AssistantText,
    Function,
    Message,
    ProviderIds,
    Reasoning,
    ReasoningText,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolResultText,
    UserContent,
    UserMessage,
    UserText,
)
from app.engine.streaming.items import (
    FinalItem,
    InternalCallId,
    ReasoningDeltaItem,
    ReasoningItem,
    StreamItem,
    TextItem,
    ToolCallArgumentsItem,
    ToolCallItem,
    ToolCallNameItem,
    UnknownItem,
)
from app.engine.turn_policy import ToolChoice, TurnPolicy
from app.engine.usage import FinishReason, Usage

Json = dict[str, Any]

_TOKENS = {"$not_executed": texts.NOT_EXECUTED, "$interrupted": texts.INTERRUPTED}


def read_cases() -> list[Json]:
    """The cases, with their tokens replaced."""
    text = (Path(__file__).parent / "data" / "agent-run-cases.json").read_text("utf-8")
    cases: list[Json] = _without_tokens(json.loads(text)["cases"])
    return cases


def _without_tokens(value: Any) -> Any:
    match value:
        case str():
            return _TOKENS.get(value, value)
        case list():
            return [_without_tokens(item) for item in value]
        case dict():
            return {key: _without_tokens(item) for key, item in value.items()}
        case _:
            return value


def message(given: Json) -> Message:
    match given:
        case {"system": text}:
            return SystemMessage(text=text)
        case {"user": content}:
            return UserMessage(content=user_content(content))
        case {"assistant": content}:
            return AssistantMessage(id=given.get("id"), content=assistant_content(content))
        case _:
            raise AssertionError(given)


def messages(given: list[Json]) -> tuple[Message, ...]:
    return tuple(message(item) for item in given)


def prompt(given: str | Json) -> str | UserMessage:
    if isinstance(given, str):
        return given
    read = message(given)
    assert isinstance(read, UserMessage)
    return read


def assistant_content(given: str | list[Json]) -> tuple[AssistantContent, ...]:
    if isinstance(given, str):
        return (AssistantText(text=given),)
    return tuple(assistant_part(part) for part in given)


def assistant_part(given: Json) -> AssistantContent:
    match given:
        case {"text": text}:
            return AssistantText(text=text, additional_params=given.get("params"))
        case {"call": _}:
            return tool_call(given)
        case {"reasoning": _}:
            return reasoning(given)
        case {"image": source}:
            return AssistantImage(source=source)
        case _:
            raise AssertionError(given)


def tool_call(given: Json) -> ToolCall:
    invalid = given.get("invalid_args")
    arguments = {} if invalid is not None else given.get("args", {"x": 1})
    return ToolCall(
        id=given["call"],
        provider=None if given.get("local") else ProviderIds(call_id=given["call"]),
        function=Function(name=given["name"], arguments=arguments, invalid_arguments=invalid),
    )


def reasoning(given: Json) -> Reasoning:
    parts = given["reasoning"]
    parts = [parts] if isinstance(parts, str) else parts
    signature = given.get("signature")
    return Reasoning(
        id=given.get("id"),
        content=tuple(ReasoningText(text=part, signature=signature) for part in parts),
    )


def user_content(given: str | list[Json]) -> tuple[UserContent, ...]:
    if isinstance(given, str):
        return (UserText(text=given),)
    return tuple(user_part(part) for part in given)


def user_part(given: Json) -> UserContent:
    if "result" not in given:
        return UserText(text=given["text"])
    return ToolResult(
        call=given["result"],
        provider=None if given.get("local") else ProviderIds(call_id=given["result"]),
        name=given.get("name", "add"),
        content=(ToolResultText(text=given["text"]),),
    )


def usage(given: list[int] | Json | None) -> Usage:
    match given:
        case None:
            return Usage()
        case [taken, made]:
            return Usage(input_tokens=taken, output_tokens=made, total_tokens=taken + made)
        case _:
            return Usage.model_validate(given)


def finish_reason(given: str | None) -> FinishReason | None:
    if given is None:
        return None
    kind, _, detail = given.partition(":")
    return FinishReason.model_validate({"kind": kind, "detail": detail or None})


def tool_choice(given: str | list[str] | None) -> ToolChoice | None:
    if given is None:
        return None
    if isinstance(given, list):
        return ToolChoice(mode="specific", names=tuple(given))
    return ToolChoice.model_validate({"mode": given})


def policy(args: Json) -> TurnPolicy:
    return TurnPolicy(
        executable_tools=tuple(args.get("tools", ["add"])),
        tool_choice=tool_choice(args.get("tool_choice")),
        output_tool=args.get("output_tool"),
        output_tool_withheld=args.get("output_tool_withheld", False),
    )


def action(given: str | Json) -> InvalidToolCallAction:
    match given:
        case "fail":
            return Fail()
        case "ignore":
            return Ignore()
        case {"retry": feedback}:
            return Retry(feedback=feedback)
        case {"repair": name}:
            return Repair(tool_name=name)
        case {"skip": reason}:
            return Skip(reason=reason)
        case {"stop": reason}:
            return Stop(reason=reason)
        case _:
            raise AssertionError(given)


def retry_request(given: str | Json) -> RetryRequest:
    return Repeat() if isinstance(given, str) else Feedback(text=given["feedback"])


def internal_call_ids(given: list[Json]) -> tuple[InternalCallId, ...]:
    return tuple(InternalCallId(**known) for known in given)


def stream_item(given: Json) -> StreamItem:
    fields = {key: value for key, value in given.items() if key != "type"}
    match given["type"]:
        case "text":
            return TextItem(**fields)
        case "reasoning":
            return ReasoningItem(correlator=given["correlator"], reasoning=reasoning(given["part"]))
        case "reasoning_delta":
            return ReasoningDeltaItem(**fields)
        case "tool_call":
            return ToolCallItem(
                tool_call=tool_call(given["tool_call"]),
                internal_call_id=given["internal_call_id"],
            )
        case "tool_call_name":
            return ToolCallNameItem(**fields)
        case "tool_call_arguments":
            return ToolCallArgumentsItem(**fields)
        case "final":
            return FinalItem(
                usage=usage(given.get("usage")),
                finish_reason=finish_reason(given.get("finish_reason")),
                raw=None,
            )
        case "unknown":
            return UnknownItem(payload=given["payload"])
        case _:
            raise AssertionError(given)
