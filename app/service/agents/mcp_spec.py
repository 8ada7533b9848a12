"""The registration of an MCP server (service.md 3): its members, and what must hold between them.

A command is a name of the operator's list and never a command line. Headers are secrets: they come
in here and go to the server alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from app.service.agents.spec import Member
from app.service.members import Name
from app.service.refusals import FieldFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SERVER_NAME: Final = r"^[a-z0-9-]{1,32}$"
_SERVER_ENTRY: Final = re.compile(r"([a-z0-9-]{1,32})(?::\*|__.+)")
# What the protocol and the wire say of themselves is not the caller's to say.
_OURS: Final = re.compile(
    r"host|connection|te|trailer|upgrade|keep-alive|transfer-encoding|expect|accept|accept-encoding"
    r"|content-.*|mcp-.*|proxy-.*|last-event-id",
    re.IGNORECASE,
)

HeaderName = Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$")]
HeaderValue = Annotated[str, Field(pattern=r"^[!-~]([ -~]{0,8190}[!-~])?$", max_length=8192)]


class ToolFlags(Member):
    """What the operator says of a tool; it counts where the server is registered."""

    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None


class McpServerSpec(Member):
    """A server to be reached over HTTP (`url`, `headers`) or as a process (`command`)."""

    name: Annotated[str, Field(pattern=SERVER_NAME)]
    transport: Literal["http", "stdio"]
    url: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict, max_length=32)
    command: Name | None = None
    registered: bool = False
    profile: dict[Name, ToolFlags] = Field(default_factory=dict, max_length=1000)


def faults_of(spec: McpServerSpec) -> tuple[FieldFault, ...]:
    """What of the registration does not hold together."""
    return tuple(_faults(spec))


def servers_named(entries: Iterable[str]) -> list[str]:
    """The servers that entries of an agent's `tools` are about, as far as their names can tell."""
    return sorted({server for entry in entries if (server := server_named(entry)) is not None})


def server_named(entry: str) -> str | None:
    """The server that `server:*` or `server__tool` is about; there need not be one."""
    match = _SERVER_ENTRY.fullmatch(entry)
    return None if match is None else match[1]


def _faults(spec: McpServerSpec) -> Iterator[FieldFault]:
    needed, others = ("url", ("command",)), ("command", ("url", "headers"))
    member, foreign = needed if spec.transport == "http" else others
    if getattr(spec, member) is None:
        yield FieldFault(f"/{member}", f"a server over {spec.transport} needs it")
    for name in foreign:
        if getattr(spec, name):
            yield FieldFault(f"/{name}", f"a server over {spec.transport} does not take it")
    for name in spec.headers:
        if _OURS.fullmatch(name) is not None:
            yield FieldFault("/headers", f"{name!r} is not the caller's to set")
