"""The list of tools is by name, and its cursor is a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from app.log.queries import Page
from app.service.agents.tool_listing import ToolListing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.servers import McpServerRecord
    from app.service.agents.tool_listing import ListedTool
    from app.service.ports.database import Session


@dataclass(frozen=True)
class Named:
    name: str


class Catalogue:
    """A catalogue of names in no order."""

    def tools(self, servers: Sequence[McpServerRecord]) -> Sequence[ListedTool]:
        return cast("list[ListedTool]", [Named("c"), Named("a"), Named("b")])


class NoServers:
    """A session of a tenant without MCP servers."""

    async def mcp_servers(self) -> list[McpServerRecord]:
        return []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (Page(10), ["a", "b", "c"]),
        (Page(2), ["a", "b"]),
        (Page(2, "a"), ["b", "c"]),
        (Page(2, "bb"), ["c"]),
        (Page(2, "c"), []),
    ],
)
async def test_a_page_of_tools(page: Page, names: list[str]) -> None:
    session = cast("Session", NoServers())
    shown = await ToolListing(Catalogue()).page(session, page)
    assert [tool.name for tool in shown] == names
