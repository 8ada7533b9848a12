"""The tools of a deployment, each with what the gate must know of it (turn.md 3.9, 5.2).

A registry is made once, at start-up, and refuses there whatever could not be held later: a reserved
or repeated name, a schema that is none, a session approval for a tool that is not idempotent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator, SchemaError

from app.engine.json.arguments import canonical_bytes, sha256_hex
from app.policy.consent import Consent
from app.policy.profile import Origin
from app.policy.taint import Trust
from app.turn.ports import ToolSpec
from app.turn.texts import RESERVED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from app.policy.capability import CapabilitySet
    from app.policy.profile import ToolProfile
    from app.tools.ports import Workspace
    from app.turn.ports import ToolInvocation, ToolOutcome

    # What a tool does. Its arguments fit its schema; its failures are outcomes.
    ToolBody = Callable[[ToolInvocation, Workspace], Awaitable[ToolOutcome]]


class ToolRefused(ValueError):
    """The tool cannot be registered; raised at start-up."""


@dataclass(frozen=True, kw_only=True)
class RegisteredTool:
    """A tool. `server` is its MCP server, `why_not` the deployment requirement that is missing.

    `address` is where that server is: a namesake somewhere else has none of its approvals.
    `hints` are its server's words about it; where others say otherwise, they change nothing else.
    `denies` tells, without side effects, whether the sandbox would refuse such arguments.
    `session_approvable` is as `idempotent` unless it says no.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    title: str
    profile: ToolProfile
    body: ToolBody
    idempotent: bool = False
    session_approvable: bool | None = None
    consent: Consent = Consent.ALLOW
    server: str | None = None
    address: str | None = None
    hints: Mapping[str, bool] = field(default_factory=dict)
    why_not: str | None = None
    denies: Callable[[Mapping[str, Any]], bool] | None = None

    @property
    def is_viable(self) -> bool:
        """Whether this deployment can run the tool; else it is not offered."""
        return self.why_not is None

    @property
    def is_session_approvable(self) -> bool:
        """Whether a session approval may serve the tool."""
        return self.idempotent if self.session_approvable is None else self.session_approvable

    @property
    def origin(self) -> Origin:
        """Where the tool comes from, by the operator's word."""
        return self.profile.origin

    @property
    def required_capabilities(self) -> CapabilitySet:
        """What a call of it needs."""
        return self.profile.required()

    @property
    def ingests_untrusted(self) -> bool:
        """Whether its results bring in content from outside."""
        return self.profile.ingests_untrusted

    @property
    def annotations(self) -> dict[str, Any]:
        """What is said of the tool, in the words of the wire: by the operator, by its server."""
        said = {
            "read_only": self.profile.read_only,
            "destructive": self.profile.destructive,
            "open_world": self.profile.open_world,
        }
        declared = {"declared": dict(self.hints)} if self.hints else {}
        address = {} if self.address is None else {"address": self.address}
        return said | declared | address

    @cached_property
    def definition_digest(self) -> str:
        """The digest that approvals and grants are bound to: another definition is another tool."""
        definition: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "schema": dict(self.parameters),
            "annotations": self.annotations,
        }
        return sha256_hex(canonical_bytes(definition))

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as offered to a model."""
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            title=self.title,
            definition_digest=self.definition_digest,
            trust=self._description_trust,
        )

    @property
    def _description_trust(self) -> Trust:
        """Nobody vouches for what an unregistered server says of its tools."""
        is_unknown = self.profile.origin is Origin.UNKNOWN
        return Trust.QUARANTINED_CONTENT if is_unknown else Trust.UNSPECIFIED


class ToolRegistry:
    """Every registered tool by name. Raises ToolRefused for what must not be registered."""

    def __init__(self, tools: Iterable[RegisteredTool]) -> None:
        self._tools: dict[str, RegisteredTool] = {}
        for tool in tools:
            _check(tool)
            if tool.name in self._tools:
                raise ToolRefused(f"tool {tool.name!r} is registered twice")
            self._tools[tool.name] = tool

    def all(self) -> tuple[RegisteredTool, ...]:
        """The tools in the order of their registration."""
        return tuple(self._tools.values())

    def get(self, name: str) -> RegisteredTool | None:
        """The tool of that name."""
        return self._tools.get(name)

    def extended(self, tools: Iterable[RegisteredTool]) -> ToolRegistry:
        """These tools and others, which were checked before; whoever has a name keeps it."""
        both = ToolRegistry(())
        both._tools = {tool.name: tool for tool in tools} | self._tools
        return both

    def rebound(self, tools: Iterable[RegisteredTool]) -> ToolRegistry:
        """These tools, some of them with other bodies."""
        both = ToolRegistry(())
        both._tools = self._tools | {tool.name: tool for tool in tools}
        return both

    def server_of(self, name: str) -> str | None:
        """The MCP server of the tool of that name, if it comes from one."""
        tool = self._tools.get(name)
        return None if tool is None else tool.server

    def named(self, entry: str) -> tuple[RegisteredTool, ...]:
        """The tools that an entry of an agent's `tools` stands for."""
        if (tool := self._tools.get(entry)) is not None:
            return (tool,)
        server = entry.removesuffix(":*")
        if server == entry:
            return ()
        return tuple(tool for tool in self._tools.values() if tool.server == server)


def _check(tool: RegisteredTool) -> None:
    if tool.name in RESERVED:
        raise ToolRefused(f"tool name {tool.name!r} is reserved")
    if tool.is_session_approvable and not tool.idempotent:
        raise ToolRefused(f"tool {tool.name!r}: only an idempotent tool may be session approvable")
    try:
        Draft202012Validator.check_schema(tool.parameters)
    except SchemaError as error:
        raise ToolRefused(f"tool {tool.name!r}: its parameters are no JSON Schema") from error
    if tool.parameters.get("type") != "object":
        raise ToolRefused(f"tool {tool.name!r}: its parameters must be of type object")
