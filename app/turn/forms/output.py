"""The output tool: a synthetic tool whose arguments are the answer (agent-run.md 7).

It is offered beside the real tools of an agent whose answers have a form. A call of it is the
AgentRun's to take: it meets no gate, asks nobody and never runs, and neither do the calls beside
it. What the log says of these calls is said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from app.engine.commands import CallModel
from app.engine.json.arguments import sha256_hex
from app.engine.json.text import compact_json
from app.engine.messages import ToolCall, ToolResult, ToolResultText
from app.turn import texts
from app.turn.ports import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from app.engine.agent_run import AgentRun
    from app.engine.commands import Done
    from app.engine.messages import AssistantContent, UserMessage
    from app.turn.ports import ToolExecutor

NAME: Final = "final_result"
_DESCRIPTION: Final = "Give the final answer: the structured result as the arguments of this tool."


@dataclass(frozen=True, slots=True)
class OutputTool:
    """The output tool of one run. `is_taken`: a real tool has come to bear its name since."""

    spec: ToolSpec
    is_taken: bool = False

    @property
    def name(self) -> str:
        """The name pinned for the run."""
        return self.spec.name


def output_tool(
    run: AgentRun, schema: Mapping[str, object] | None, tools: ToolExecutor
) -> OutputTool | None:
    """The output tool that an agent with a schema offers; the run keeps the first name it had."""
    if schema is None:
        return None
    name = run.pin_output_tool(run.output_tool_name() or _free_name(tools)) or NAME
    # Providers insist that the parameters of a tool are declared to be an object.
    parameters = {**schema, "type": "object"}
    spec = ToolSpec(
        name=name,
        description=_DESCRIPTION,
        parameters=parameters,
        title="Final answer",
        definition_digest=sha256_hex(compact_json(parameters).encode()),
    )
    return OutputTool(spec, is_taken=tools.owns(name))


def settled_calls(
    content: Iterable[AssistantContent], wanted: Done | CallModel, *, name: str
) -> Iterator[tuple[ToolCall, str, str]]:
    """The calls of a reply that the output tool has ended, each with its result and outcome.

    `wanted` is what the run wants after the reply; with a further model call come the results that
    the model is told.
    """
    calls = [part for part in content if isinstance(part, ToolCall)]
    counting = next((place for place, call in enumerate(calls) if call.name == name), None)
    told = _told(wanted.prompt) if isinstance(wanted, CallModel) else []
    for place, call in enumerate(calls):
        is_output = place == counting
        if not told:
            result = texts.ACCEPTED if is_output else texts.not_executed()
            yield call, result, "answered" if is_output else "cancelled"
        elif call.is_malformed and is_output:
            yield call, told[place], "malformed_arguments"
        else:
            yield call, told[place], "invalid_arguments" if is_output else "cancelled"


def _told(prompt: UserMessage) -> list[str]:
    """The texts of the results that the model gets."""
    return [
        "".join(part.text for part in block.content if isinstance(part, ToolResultText))
        for block in prompt.content
        if isinstance(block, ToolResult)
    ]


def _free_name(tools: ToolExecutor) -> str:
    names = (NAME if number == 0 else f"{NAME}_{number}" for number in count())
    return next(name for name in names if not tools.owns(name))
