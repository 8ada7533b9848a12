"""Tools that count their executions, and wait or fail where a test says so.

`mutate` asks and has an effect outside, `stamp` asks and is idempotent, `charge` has an effect and
asks nobody, `read` is read-only, `fetch` brings untrusted content in, `strict` asks and has a
schema, `share` gives access. The tools `served` by the server `crm` are read-only.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from app.policy.consent import Consent
from app.policy.profile import Origin, ToolProfile
from app.tools.registry import RegisteredTool, ToolRegistry
from app.turn.ports import ToolOutcome

if TYPE_CHECKING:
    from app.tools.ports import Workspace
    from app.turn.ports import ToolInvocation

ANY = {"type": "object"}
STRICT: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "unit": {"type": "string", "default": "kg"}},
    "required": ["n"],
    "additionalProperties": False,
}
LOCAL = partial(ToolProfile, Origin.LOCAL_SANDBOX, destructive=False, open_world=False)
OUTSIDE = ToolProfile(Origin.FIRST_PARTY, open_world=False)


@dataclass
class CountingTools:
    """`calls` are the executions that began, `open` says which tools may end."""

    calls: list[ToolInvocation] = field(default_factory=list)
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    began: asyncio.Event = field(default_factory=asyncio.Event)
    described: str = ""
    served: dict[str, str] = field(default_factory=dict)
    _known: tuple[list[RegisteredTool], ToolRegistry] | None = None

    @property
    def names(self) -> list[str]:
        return [tool.name for tool in self.registered()]

    def count(self, name: str = "mutate") -> int:
        """How often the tool ran."""
        return len(self.args(name))

    def args(self, name: str = "mutate") -> list[str]:
        """The canonical arguments of the tool's executions, in order."""
        return [call.args_canonical.decode() for call in self.calls if call.name == name]

    def hold(self, name: str) -> asyncio.Event:
        """Let the tool wait until the event is set."""
        self.held[name] = asyncio.Event()
        return self.held[name]

    async def run(self, call: ToolInvocation, _workspace: Workspace) -> ToolOutcome:
        """The body of every tool."""
        self.calls.append(call)
        self.began.set()
        if (held := self.held.get(call.name)) is not None:
            await held.wait()
        if (error := self.errors.get(call.name)) is not None:
            raise error
        text = self.answers.get(call.name, f'{{"{call.name}":{call.args_canonical.decode()}}}')
        return ToolOutcome(text=text)

    def registry(self) -> ToolRegistry:
        """The registry of a process; many share one, since the check of a tool takes its time."""
        registered = self.registered()
        if self._known is None or self._known[0] != registered:
            self._known = registered, ToolRegistry(registered)
        return self._known[1]

    def registered(self) -> list[RegisteredTool]:
        """The tools as a deployment registers them."""
        return [
            self._tool("mutate", OUTSIDE, consent=Consent.ASK),
            self._tool("stamp", LOCAL(), consent=Consent.ASK, idempotent=True),
            self._tool("charge", OUTSIDE),
            self._tool("read", LOCAL(read_only=True)),
            self._tool("fetch", ToolProfile(Origin.FETCHER, destructive=False)),
            self._tool("strict", OUTSIDE, consent=Consent.ASK, parameters=STRICT),
            self._tool("share", ToolProfile(Origin.ACCESS_GRANT, open_world=False)),
            *(self._served(name) for name in self.served),
        ]

    def _served(self, name: str) -> RegisteredTool:
        tool = self._tool(f"crm__{name}", LOCAL(read_only=True), server="crm")
        return replace(tool, description=self.served[name])

    def _tool(self, name: str, profile: ToolProfile, **more: Any) -> RegisteredTool:
        return RegisteredTool(
            name=name,
            title=name.title(),
            description=f"The tool {name}{self.described}.",
            parameters=more.pop("parameters", ANY),
            profile=profile,
            body=self.run,
            **more,
        )
