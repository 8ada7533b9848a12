"""The bounds of grants, at their edges, and whose tools an agent's entries stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from app.policy.constraints import Constraint
from app.policy.profile import Origin, ToolProfile
from app.service.grants.rules import GrantRules, constraint_faults, lifetime_faults
from app.service.refusals import GrantInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.log.servers import McpServerRecord
    from tests.support.service.house import House


@pytest.mark.parametrize(("seconds", "count"), [(59, 1), (60, 0), (7_776_000, 0), (7_776_001, 1)])
def test_a_grant_serves_for_a_minute_to_ninety_days(seconds: int, count: int) -> None:
    assert [fault.pointer for fault in lifetime_faults(seconds, "/at")] == ["/at"] * count


@pytest.mark.parametrize(("number", "pointers"), [(16, []), (17, ["/constraints"])])
def test_a_grant_has_at_most_sixteen_constraints(number: int, pointers: list[str]) -> None:
    constraints = [Constraint("/a", "equals", 1)] * number
    assert [fault.pointer for fault in constraint_faults(constraints)] == pointers


@pytest.mark.parametrize(("length", "pointers"), [(4094, []), (4095, ["/constraints/1/value"])])
def test_the_canonical_text_of_a_value_has_at_most_4096_bytes(
    length: int, pointers: list[str]
) -> None:
    """Two of them are the quotation marks."""
    constraints = [Constraint("/a", "equals", 1), Constraint("/b", "equals", "x" * length)]
    assert [fault.pointer for fault in constraint_faults(constraints)] == pointers


@dataclass(frozen=True)
class Listed:
    """A tool of the catalogue."""

    name: str
    server: str | None
    description: str = ""
    idempotent: bool = False
    definition_digest: str = "d" * 64
    why_not: str | None = None

    @property
    def profile(self) -> ToolProfile:
        return ToolProfile(Origin.FIRST_PARTY)

    @property
    def parameters(self) -> Mapping[str, object]:
        return {"type": "object"}


@dataclass(frozen=True)
class Catalogue:
    """The one tool there is."""

    tool: Listed

    def tools(self, servers: Sequence[McpServerRecord]) -> Sequence[Listed]:
        return [self.tool]


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("entry", "server", "is_its_tool"),
    [
        ("look_up", None, True),
        ("look_up", "crm", True),
        ("crm:*", "crm", True),
        ("crm:*", "erp", False),
        ("crm:*", None, False),
        ("None:*", None, False),
        ("other", "crm", False),
    ],
)
async def test_what_may_be_granted_is_a_tool_the_agent_names_itself_or_with_its_server(
    house: House, entry: str, server: str | None, is_its_tool: bool
) -> None:
    await house.agent("courier", tools=[entry])
    rules = GrantRules(Catalogue(Listed("look_up", server)))
    async with house.store.database.session(house.tenant) as session:
        if is_its_tool:
            assert await rules.digest(session, "courier", "look_up") == "d" * 64
        else:
            with pytest.raises(GrantInvalid, match="expected a tool of the agent"):
                await rules.digest(session, "courier", "look_up")
