"""An agent's dispatch rules: what becomes of a call, or of its result, by its arguments.

Before a call the first rule that matches denies it, has a person asked, rewrites its arguments or
adds a text for the model; after it the first one whose pattern occurs redacts the result
(service.md 3). Here are only the rules; who applies them knows patterns and their time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.policy.consent import ConsentRules


@dataclass(frozen=True, slots=True)
class Condition:
    """The arguments have a value at `pointer` in which `pattern` occurs."""

    pointer: str
    pattern: str


@dataclass(frozen=True, slots=True)
class DenyCall:
    """Nobody may let the call run."""


@dataclass(frozen=True, slots=True)
class AskFirst:
    """A person is asked, whatever the consent rules say."""


@dataclass(frozen=True, slots=True)
class RewriteCall:
    """The call runs with these values at these JSON pointers."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InjectText:
    """The model gets the text after the result."""

    text: str


CallAction = DenyCall | AskFirst | RewriteCall | InjectText


@dataclass(frozen=True, slots=True)
class _Rule:
    """`name` says in records which rule it is; `tool` is a tool's name, `server:*` or `*`."""

    name: str
    tool: str

    def covers(self, tool: str, server: str | None) -> bool:
        """Whether the rule is about that tool of that server; a prefix never matches."""
        return self.tool in {tool, "*"} or (server is not None and self.tool == f"{server}:*")


@dataclass(frozen=True, slots=True)
class CallRule(_Rule):
    """A rule for what becomes of a call."""

    action: CallAction
    when: Condition | None = None


@dataclass(frozen=True, slots=True)
class ResultRule(_Rule):
    """In a result each occurrence of the pattern is replaced by the text."""

    pattern: str
    text: str


@dataclass(frozen=True, slots=True)
class CallRules:
    """What binds the calls of one run.

    `consent` holds the rules of the run's snapshot of its agent and of the agent as it is now, and
    the stricter counts. `before` and `after` are those of the snapshot; of `present`, those of the
    agent as it is now, only a denial counts. With `trusts_uploads` a call that reads what people
    uploaded does not taint the run.
    """

    consent: tuple[ConsentRules, ...] = ()
    before: tuple[CallRule, ...] = ()
    after: tuple[ResultRule, ...] = ()
    present: tuple[CallRule, ...] = ()
    trusts_uploads: bool = False

    @property
    def dispatches(self) -> bool:
        """Whether there is any rule beyond the consent rules."""
        return bool(self.before or self.after or self.present)
