"""The tools of this deployment, as everybody of a tenant may see them (service.md 3)."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.log.queries import Page
    from app.policy.profile import ToolProfile


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
    """Every tool an agent may name, viable or not."""

    def tools(self) -> Sequence[ListedTool]: ...


class ToolListing:
    """Lists the catalogue by name."""

    def __init__(self, catalogue: ToolCatalogue) -> None:
        self._catalogue = catalogue

    def page(self, page: Page) -> list[ListedTool]:
        """Tools in the order of their names; `before` is the last name seen."""
        tools = sorted(self._catalogue.tools(), key=attrgetter("name"))
        rest = [tool for tool in tools if page.before is None or tool.name > page.before]
        return rest[: page.limit]
