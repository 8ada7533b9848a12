"""What one model request advertised, and therefore which calls its answer may hold.

A policy is frozen when the request is built and stored with the turn: a registry that changes
later does not change what the model was allowed to do (agent-run.md 10).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, model_validator

from app.engine.value import NonEmpty, Value

Mode = Literal["auto", "none", "required", "specific"]


def _sorted_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


class ToolChoice(Value):
    """How free the model is to call tools; `names` only under `specific`."""

    mode: Mode
    names: tuple[NonEmpty, ...] = ()

    @model_validator(mode="after")
    def _names_only_under_specific(self) -> ToolChoice:
        if bool(self.names) != (self.mode == "specific"):
            raise ValueError("names: expected names exactly under the mode 'specific'")
        return self


class TurnPolicy(Value):
    """The tools of one request. The output tool is never among the executable ones."""

    executable_tools: Annotated[tuple[NonEmpty, ...], AfterValidator(_sorted_unique)] = ()
    tool_choice: ToolChoice | None = None
    output_tool: NonEmpty | None = None
    output_tool_withheld: bool = False

    @model_validator(mode="after")
    def _output_tool_is_not_executable(self) -> TurnPolicy:
        if self.output_tool in self.executable_tools and not self.output_tool_withheld:
            raise ValueError(f"output_tool: {self.output_tool!r} is an executable tool as well")
        return self

    @property
    def allowed_tools(self) -> tuple[str, ...]:
        """The names a call of this turn may carry, sorted."""
        advertised = self._advertised()
        match self.tool_choice:
            case ToolChoice(mode="none"):
                return ()
            case ToolChoice(mode="specific", names=names):
                return tuple(sorted(advertised.intersection(names)))
            case _:
                return tuple(sorted(advertised))

    def allows(self, name: str) -> bool:
        """Whether a call of this turn may carry `name`."""
        return name in self.allowed_tools

    def advertises(self, name: str) -> bool:
        """Whether the request offered a tool of that name, allowed or not."""
        return name in self._advertised()

    def forbids_calls(self) -> bool:
        """Whether the turn may hold no call at all (mode `none`)."""
        return self.tool_choice is not None and self.tool_choice.mode == "none"

    def _advertised(self) -> set[str]:
        advertised = set(self.executable_tools)
        if self.output_tool is not None and not self.output_tool_withheld:
            advertised.add(self.output_tool)
        return advertised
