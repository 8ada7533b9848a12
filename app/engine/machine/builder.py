"""What a host sets on a run (agent-run.md 3): its shape before the start, budgets until the end.

Every method changes the run in place and returns it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine.expect import members, require, require_all
from app.engine.history import require_canonical
from app.engine.json.output_schema import require_usable
from app.engine.machine.record import RunConfig, RunDone, RunFailed
from app.engine.machine.view import RunView
from app.engine.messages import Message, UserMessage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from app.engine.machine.record import Unhandled
    from app.engine.turn_policy import ToolChoice

_MESSAGE = members(Message)


def as_prompt(prompt: str | UserMessage) -> UserMessage:
    """The first message of a run; a `str` stands for one text."""
    message = UserMessage.of_text(prompt) if isinstance(prompt, str) else prompt
    require(UserMessage, prompt=message)
    require_canonical((message,))
    return message


class RunBuilder(RunView):
    """A run as its host sets it up."""

    def max_turns(self, n: int) -> Self:
        """Allow `n` model calls in all: tool continuations, retries and re-prompts included."""
        return self._budget(max_turns=n)

    def max_invalid_tool_call_retries(self, n: int) -> Self:
        """Allow `n` accepted `retry` actions in all; each costs a turn as well."""
        return self._budget(max_invalid_tool_call_retries=n)

    def max_consecutive_malformed_tool_calls(self, n: int | None) -> Self:
        """Fail after more than `n` turns with a malformed call in a row; None: never."""
        return self._budget(max_consecutive_malformed_tool_calls=n)

    def with_history(self, history: Sequence[Message]) -> Self:
        """Put a history before the prompt. Raises `NonCanonicalHistory`."""
        require_all(_MESSAGE, history=history)
        require_canonical(history)
        self._require_unstarted("with_history")
        self._record = self._record.with_input_history(tuple(history))
        return self

    def with_output_validation(
        self, output_schema: Mapping[str, object] | None, max_output_retries: int
    ) -> Self:
        """Ask again up to `max_output_retries` times for an output that passes the schema."""
        config = self._reconfigured(
            output_schema=output_schema, max_output_retries=max_output_retries
        )
        if config.output_schema is not None:
            require_usable(config.output_schema)
        return self._shape("with_output_validation", config)

    def with_tool_choice(self, choice: ToolChoice | None) -> Self:
        """The tool choice of every turn whose policy sets none."""
        return self._shape("with_tool_choice", self._reconfigured(tool_choice=choice))

    def with_output_tool_name(self, name: str) -> Self:
        """Pin the output tool from the start."""
        require(str, name=name)
        return self._shape("with_output_tool_name", self._reconfigured(output_tool_name=name))

    def with_unhandled_invalid_tool_call(self, action: Unhandled) -> Self:
        """What to do with an invalid call that nobody decided on."""
        config = self._reconfigured(unhandled_invalid_tool_call=action)
        return self._shape("with_unhandled_invalid_tool_call", config)

    def rewrite_initial_prompt(self, prompt: str | UserMessage) -> Self:
        """Replace the prompt."""
        message = as_prompt(prompt)
        self._require_unstarted("rewrite_initial_prompt")
        self._record = self._record.replacing_prompt(message)
        return self

    def _reconfigured(self, **changes: object) -> RunConfig:
        return RunConfig.model_validate({**dict(self._record.config), **changes})

    def _budget(self, **changes: object) -> Self:
        config = self._reconfigured(**changes)
        if isinstance(self._record.state, RunDone | RunFailed):
            raise self._record.violation(f"{next(iter(changes))} called after the run ended")
        self._record = self._record.configured(config)
        return self

    def _shape(self, method: str, config: RunConfig) -> Self:
        self._require_unstarted(method)
        self._record = self._record.configured(config)
        return self

    def _require_unstarted(self, method: str) -> None:
        if self._record.turn > 0:
            raise self._record.violation(f"{method} called after the run started")
