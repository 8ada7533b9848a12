"""The tools of this deployment and of a tenant's servers, as its people see them (service.md 3)."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.log.queries import Page
    from app.log.servers import McpServerRecord
    from app.policy.profile import ToolProfile
    from app.service.ports.database import Session


class ListedTool(Protocol):
    """What is shown of one tool; `why_not` says why it is not viable here, and is None if it is."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def profile(self) -> ToolProfile: ...
    @property
    def idempotent(self) -> bool: ...
    @property
    def definition_digest(self) -> str: ...
    @property
    def server(self) -> str | None: ...
    @property
    def why_not(self) -> str | None: ...


class ToolCatalogue(Protocol):
    """Every tool an agent may name, viable or not, with those of its tenant's servers."""

    def tools(self, servers: Sequence[McpServerRecord]) -> Sequence[ListedTool]: ...


class ToolListing:
    """Lists the catalogue by name."""

    def __init__(self, catalogue: ToolCatalogue) -> None:
        self._catalogue = catalogue

    async def page(self, session: Session, page: Page) -> list[ListedTool]:
        """Tools in the order of their names; `before` is the last name seen."""
        servers = await session.mcp_servers()
        tools = sorted(self._catalogue.tools(servers), key=attrgetter("name"))
        rest = [tool for tool in tools if page.before is None or tool.name > page.before]
        return rest[: page.limit]
