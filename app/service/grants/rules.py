"""What may be granted: a tool of an agent, both as they are now, within bounds, never everything.

The same rules hold when a ceremony is prepared and when its signed text comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.engine.json.arguments import canonical_bytes
from app.policy.capability import NEVER_GRANTED, in_order, parse_capability
from app.service.agents.spec import AgentSpec
from app.service.refusals import FieldFault, GrantInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.policy.capability import CapabilitySet
    from app.policy.constraints import Constraint
    from app.service.agents.tool_listing import ListedTool, ToolCatalogue
    from app.service.ports.database import Session
    from app.trust.grant import Coverage

SHORTEST_S: Final = 60
LONGEST_S: Final = 90 * 86_400
CONSTRAINTS: Final = 16
VALUE_BYTES: Final = 4096


class GrantRules:
    """Holds grants against the agents and tools that there are."""

    def __init__(self, catalogue: ToolCatalogue) -> None:
        self._catalogue = catalogue

    async def digest(self, session: Session, agent: str, tool: str) -> str:
        """The digest of the tool's present definition. Raises GrantInvalid."""
        spec = await _spec(session, agent)
        return (await self._tool(session, spec, tool)).definition_digest

    async def check(self, session: Session, coverage: Coverage) -> None:
        """Refuse what may not be covered, or not any more. Raises GrantInvalid, with all faults."""
        spec = await _spec(session, coverage.agent)
        tool = await self._tool(session, spec, coverage.tool)
        base = spec.grant_policy.policy().base
        faults = [
            *_capability_faults(coverage.capabilities, base & tool.profile.required()),
            *constraint_faults(coverage.constraints),
        ]
        if coverage.tool_definition_digest != tool.definition_digest:
            detail = "is not that of the tool's present definition"
            faults.append(FieldFault("/tool_definition_digest", detail))
        if faults:
            raise refusal(*faults)

    async def _tool(self, session: Session, spec: AgentSpec, name: str) -> ListedTool:
        for tool in self._catalogue.tools(await session.mcp_servers()):
            if tool.name == name and any(_names(entry, tool) for entry in spec.tools):
                return tool
        raise refusal(FieldFault("/tool", f"expected a tool of the agent, found {name!r}"))


def lifetime_faults(seconds: int, pointer: str) -> Iterator[FieldFault]:
    """What is wrong with a grant that is to serve for so long."""
    if not SHORTEST_S <= seconds <= LONGEST_S:
        detail = f"a grant serves for {SHORTEST_S} to {LONGEST_S} seconds, found {seconds}"
        yield FieldFault(pointer, detail)


def refusal(*faults: FieldFault) -> GrantInvalid:
    """The refusal of a grant that has these faults."""
    return GrantInvalid("; ".join(map(str, faults)), faults=faults)


async def _spec(session: Session, name: str) -> AgentSpec:
    agent = await session.agent(name)
    if agent is None:
        raise refusal(FieldFault("/agent", f"there is no agent {name!r}"))
    return AgentSpec.model_validate(agent.spec)


def _names(entry: str, tool: ListedTool) -> bool:
    """Whether an entry of an agent's `tools` stands for the tool."""
    return entry == tool.name or (tool.server is not None and entry == f"{tool.server}:*")


def constraint_faults(constraints: Sequence[Constraint]) -> Iterator[FieldFault]:
    """What is wrong with the number of them, or with their size."""
    if len(constraints) > CONSTRAINTS:
        yield FieldFault("/constraints", f"expected at most {CONSTRAINTS}")
    for at, constraint in enumerate(constraints):
        if len(canonical_bytes(constraint.value)) > VALUE_BYTES:
            detail = f"expected at most {VALUE_BYTES} bytes of canonical JSON"
            yield FieldFault(f"/constraints/{at}/value", detail)


def _capability_faults(names: Sequence[str], usable: CapabilitySet) -> Iterator[FieldFault]:
    """What is not among the usable, which the agent has and the tool needs; and disorder."""
    expected = "expected one of " + ", ".join(in_order(usable - NEVER_GRANTED))
    for at, name in enumerate(names):
        try:
            capability = parse_capability(name)
        except ValueError:
            yield FieldFault(f"/capabilities/{at}", f"{expected}, found {name!r}")
            continue
        if capability in NEVER_GRANTED:
            yield FieldFault(f"/capabilities/{at}", f"{name} is never granted; {expected}")
        elif capability not in usable:
            detail = f"{name} is not in the agent's base, or the tool does not need it; {expected}"
            yield FieldFault(f"/capabilities/{at}", detail)
    if not names or list(names) != sorted(set(names)):
        yield FieldFault("/capabilities", "expected one or more, each once, in order")
