from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import ValidationError

from app.engine.turn_policy import ToolChoice, TurnPolicy

TOOLS = ("subtract", "add", "add")


def specific(*names: str) -> ToolChoice:
    return ToolChoice(mode="specific", names=names)


@dataclass(frozen=True)
class Case:
    id: str
    choice: ToolChoice | None
    allowed: tuple[str, ...]


@pytest.mark.parametrize(
    "case",
    [
        Case("unset", None, ("add", "final_result", "subtract")),
        Case("auto", ToolChoice(mode="auto"), ("add", "final_result", "subtract")),
        Case("required", ToolChoice(mode="required"), ("add", "final_result", "subtract")),
        Case("none", ToolChoice(mode="none"), ()),
        Case("specific", specific("subtract", "absent"), ("subtract",)),
        Case("specific-output-tool", specific("final_result"), ("final_result",)),
    ],
    ids=lambda case: case.id,
)
def test_the_choice_decides_what_is_allowed(case: Case) -> None:
    """A88, A118, A119, A124"""
    policy = TurnPolicy(executable_tools=TOOLS, tool_choice=case.choice, output_tool="final_result")
    assert policy.allowed_tools == case.allowed
    assert policy.allows("final_result") is ("final_result" in case.allowed)
    assert policy.advertises("final_result")
    assert policy.forbids_calls() is (case.id == "none")


def test_a_withheld_output_tool_is_not_advertised() -> None:
    """A163"""
    policy = TurnPolicy(output_tool="final_result", output_tool_withheld=True)
    assert policy.allowed_tools == ()
    assert not policy.advertises("final_result")


def test_tools_are_sorted_and_unique() -> None:
    assert TurnPolicy(executable_tools=TOOLS).executable_tools == ("add", "subtract")


def test_the_output_tool_is_never_an_executable_one() -> None:
    with pytest.raises(ValidationError, match="executable tool as well"):
        TurnPolicy(executable_tools=("add",), output_tool="add")


@pytest.mark.parametrize(
    ("mode", "names"), [("specific", ()), ("auto", ("add",)), ("none", ("add",))]
)
def test_names_belong_to_specific_only(mode: str, names: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="names"):
        ToolChoice.model_validate({"mode": mode, "names": names})
