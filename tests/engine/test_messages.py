from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import TypeAdapter, ValidationError

from app.engine.messages import (
    AssistantMessage,
    AssistantText,
    Function,
    Message,
    ProviderIds,
    ToolCall,
    ToolResult,
    ToolResultJson,
    ToolResultText,
    UserMessage,
    UserText,
)

MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


def from_wire(raw: object, wire_id: str | None = "call_1") -> ToolCall:
    return ToolCall.from_wire(wire_id, "add", raw, turn=2, position=3)


@dataclass(frozen=True)
class Wire:
    id: str
    raw: object
    arguments: dict[str, object]
    invalid: str | None = None
    error: str | None = None


@pytest.mark.parametrize(
    "case",
    [
        Wire("object", {"x": 1}, {"x": 1}),
        Wire("text", ' {"x": 1} ', {"x": 1}),
        Wire("empty-text", "", {}),
        Wire("white-space", " \n\t", {}),
        Wire("broken-text", '{"x":', {}, '{"x":', "invalid JSON"),
        Wire("nan", '{"x":NaN}', {}, '{"x":NaN}', "invalid JSON"),
        Wire("nan-in-an-object", {"x": float("nan")}, {}, '{"x":NaN}', "invalid JSON"),
        Wire("array-text", "[1]", {}, "[1]", "expected a JSON object, found array"),
        Wire("array", [1, "a"], {}, '[1,"a"]', "expected a JSON object, found array"),
        Wire("null", None, {}, "null", "expected a JSON object, found null"),
    ],
    ids=lambda case: case.id,
)
def test_wire_arguments_become_an_object_or_are_kept_as_sent(case: Wire) -> None:
    """A199 and agent-run.md 2.2"""
    call = from_wire(case.raw)
    assert call.function.arguments == case.arguments
    assert call.function.invalid_arguments == case.invalid
    assert call.function.error == case.error
    assert call.is_malformed is (case.invalid is not None)


def test_a_wire_id_is_kept_and_remembered_for_the_provider() -> None:
    call = ToolCall.from_wire("call_1", "add", "{}", turn=1, position=0, item_id="item")
    assert call.id == "call_1"
    assert call.provider == ProviderIds(call_id="call_1", item_id="item")


@pytest.mark.parametrize("absent", [None, ""])
def test_a_missing_wire_id_is_replaced_by_a_local_one(absent: str | None) -> None:
    """A19"""
    call = from_wire("{}", absent)
    assert call.id == "local-2-3"
    assert call.provider is None


def test_the_text_of_arguments_is_compact_or_as_sent() -> None:
    assert from_wire('{"z": "é", "a": [1, null]}').arguments_text == '{"z":"é","a":[1,null]}'
    assert from_wire("{ ").arguments_text == "{ "


def test_a_renamed_call_differs_in_its_name_only() -> None:
    call = from_wire('{"x": 1}')
    renamed = call.renamed("subtract")
    assert renamed.name == "subtract"
    assert renamed.renamed("add") == call


def test_empty_params_are_no_params() -> None:
    """A104"""
    assert AssistantText(text="", additional_params={}) == AssistantText(text="")
    annotated = AssistantText(text="", additional_params={"citations": [1]})
    assert annotated.additional_params == {"citations": [1]}


@pytest.mark.parametrize("sent", ["{}", '{"x": 1}'])
def test_well_formed_text_is_not_malformed(sent: str) -> None:
    with pytest.raises(ValidationError, match="not a JSON object"):
        Function(name="add", arguments={}, invalid_arguments=sent)


def test_a_malformed_call_has_no_arguments() -> None:
    with pytest.raises(ValidationError, match="not a JSON object"):
        Function(name="add", arguments={"x": 1}, invalid_arguments="[1]")


@pytest.mark.parametrize("role", [UserMessage, AssistantMessage])
def test_a_message_is_never_empty(role: type[UserMessage | AssistantMessage]) -> None:
    with pytest.raises(ValidationError, match="at least 1 item"):
        role(content=())


def test_an_untagged_part_is_refused() -> None:
    """A115"""
    with pytest.raises(ValidationError, match="discriminator"):
        MESSAGE.validate_json('{"role": "assistant", "id": null, "content": [{"text": "hi"}]}')


def test_a_result_takes_everything_but_its_content_from_the_call() -> None:
    call = from_wire("{}")
    content = (ToolResultText(text='{"kept": "verbatim"}'), ToolResultJson(value={"a": [1]}))
    assert ToolResult.of(call, content) == ToolResult(
        call="call_1", provider=ProviderIds(call_id="call_1"), name="add", content=content
    )


def test_a_message_survives_json() -> None:
    call = from_wire('{"x": [1]}')
    message = AssistantMessage(id="m", content=(AssistantText(text="a"), call))
    assert MESSAGE.validate_json(MESSAGE.dump_json(message)) == message


def test_a_value_cannot_be_changed() -> None:
    """A204"""
    part = UserText(text="a")
    for field in ("type", "text"):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(part, field, "b")


def test_an_error_does_not_quote_the_input() -> None:
    with pytest.raises(ValidationError) as caught:
        UserText.model_validate({"text": 1, "secret": "s3cret"})
    assert "s3cret" not in str(caught.value)
