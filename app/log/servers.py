"""MCP servers as the rest of the house reads them: what was registered, what is pinned of it.

The definitions of a server's tools are pinned as it declared them. What it says of a tool may only
ever add to what a call of it requires, so the flags kept here are the least trusted ones so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from app.engine.json.arguments import sha256_hex
from app.policy.profile import Origin, ToolProfile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

SEPARATOR: Final = "__"

Transport = Literal["http", "stdio"]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    """A tool by its own name on its server. `hints` are the server's words, only those it said.

    The flags are the least trusted that were ever declared, the operator's profile applied. A tool
    that the server has ceased to list keeps its place, and so what is remembered of it.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    hints: Mapping[str, bool] = field(default_factory=dict)
    read_only: bool = False
    destructive: bool = True
    open_world: bool = True
    idempotent: bool = False
    is_listed: bool = True

    @property
    def flags(self) -> tuple[bool, ...]:
        """Everything that is believed of the tool."""
        return self.read_only, self.destructive, self.open_world, self.idempotent, self.is_listed

    def is_defined_as(self, other: McpTool) -> bool:
        """Whether both have one definition; a changed one inherits no approval."""
        return self.definition_sha256 == other.definition_sha256

    @property
    def definition_sha256(self) -> str:
        """The digest of all that the server declared.

        Texts are compared, since to Python 1 and True are equal, and to a schema they are not.
        """
        said = [self.name, self.description, self.parameters, self.hints]
        return sha256_hex(orjson.dumps(said, option=orjson.OPT_SORT_KEYS))


@dataclass(frozen=True, slots=True, kw_only=True)
class McpListing:
    """What a server answered when it was asked for its tools; `why_not` if it did not answer.

    `refused` has a sentence for each tool that cannot be offered.
    """

    tools: tuple[McpTool, ...] = ()
    refused: tuple[str, ...] = ()
    why_not: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerRecord:
    """A registered server. `version` counts its changes; `headers` are secrets.

    `why_not` says why nothing of it can be called just now. `digests_address` is false for one that
    was registered before the digests of its tools held where it is.
    """

    tenant: str
    name: str
    transport: Transport
    url: str | None
    command: str | None
    headers: Mapping[str, str] = field(repr=False)
    registered: bool
    profile: Mapping[str, Mapping[str, bool]]
    tools: tuple[McpTool, ...] = ()
    refused: tuple[str, ...] = ()
    why_not: str | None = None
    version: int = 1
    created_at: datetime
    listed_at: datetime | None = None
    digests_address: bool = True

    @property
    def address(self) -> str | None:
        """Where the server is, for the digests of its tools; None where they do not hold it.

        The whole URL, for a query may lead to another server. Headers are left out: they say who
        calls, and are renewed.
        """
        return f"{self.transport} {self.url or self.command}" if self.digests_address else None

    @property
    def reached_by(self) -> tuple[object, ...]:
        """What a connection is made from; one made from something else is another connection."""
        headers = tuple(sorted(self.headers.items()))
        return (self.transport, self.url, self.command, headers, self.created_at)

    def full_name(self, tool: McpTool) -> str:
        """The name under which a tool of the server is offered."""
        return f"{self.name}{SEPARATOR}{tool.name}"

    def profile_of(self, tool: McpTool) -> ToolProfile:
        """What the gate knows of a tool. Nobody vouches for a server that is not registered."""
        return ToolProfile(
            Origin.REGISTERED_CONNECTOR if self.registered else Origin.UNKNOWN,
            read_only=tool.read_only,
            destructive=tool.destructive,
            open_world=tool.open_world,
        )
