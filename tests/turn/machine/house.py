"""The tools as their operator registered them, and the policy that may change between two turns.

What a tool requires is written down by hand, so that a requirement which shrinks anywhere shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from app.policy.capability import ALL_CAPABILITIES, Capability, CapabilitySet
from app.policy.profile import Origin, ToolProfile
from app.turn.ports import (
    DispatchAllow,
    DispatchDeny,
    DispatchInjectContext,
    DispatchModify,
    DispatchRedact,
)
from tests.support.turn.tools import (
    ANY_OBJECT,
    CONNECTOR,
    EGRESS,
    POST,
    READ,
    WRITE,
    MemoryTool,
    MemoryTools,
)
from tests.turn.machine.script import DELEGATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from app.turn.ports import ToolDecision, ToolSpec
    from tests.support.turn.tools import Body

GIVES_ACCESS: Final = frozenset({Capability.GRANT_ACCESS})
WANTS_N: Final = {"type": "object", "required": ["n"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A tool, with what is true of it whatever the policy of the moment.

    `rewrites` and `injects` are what the house does to a call before it runs, `redacts` what is
    shown of its result. `escapes`: the sandbox would refuse it.
    """

    name: str
    required: CapabilitySet = READ
    asks: bool = False
    ingests: bool = False
    idempotent: bool = False
    cacheable: bool = False
    advertised: bool = True
    wants_n: bool = False
    rewrites: int | None = None
    injects: str = ""
    redacts: str = ""
    escapes: bool = False


TOOLS: Final = {
    one.name: one
    for one in (
        Known(name="read"),
        Known(name="crm", required=CONNECTOR),
        Known(name="inbox", ingests=True),
        Known(name="write", required=WRITE, wants_n=True),
        Known(name="send", required=EGRESS, idempotent=True, cacheable=True),
        Known(name="post", required=POST, asks=True),
        Known(name="stamp", required=WRITE, asks=True, idempotent=True, cacheable=True),
        Known(name="share", required=GIVES_ACCESS, cacheable=True, idempotent=True),
        Known(name="hidden", required=WRITE, advertised=False),
        Known(name="tucked", required=EGRESS, advertised=False),
        Known(name="shell", required=WRITE, escapes=True),
        Known(name="tidy", required=WRITE, rewrites=9),
        Known(name="brief", required=READ, injects="beware"),
        Known(name="vault", required=READ, redacts="(redacted)"),
        Known(name="feed", required=CONNECTOR | READ),
        Known(name="huge", required=READ),
        Known(name="raises", required=WRITE, ingests=True),
        Known(name="stranger", required=ALL_CAPABILITIES, ingests=True),
        Known(name="vetoed", required=WRITE),
        Known(name="admin", required=frozenset({Capability.MANAGE_ADMIN})),
    )
}
OF_WORKERS: Final = ("read", "inbox", "write", "send", "post", "stamp", "tidy", "vault")
HIDDEN: Final = tuple(name for name, one in TOOLS.items() if not one.advertised)
# The connector that declares itself again and again, as it was registered.
FEED: Final = ToolProfile(Origin.REGISTERED_CONNECTOR, True, False, False, extra=READ)
# What nobody registered, and what it says of itself.
STRANGER: Final = ToolProfile(Origin.UNKNOWN, True, False, False)


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operators have set by now.

    `asking` are the tools that were made to ask, `grown` those that give access since they were
    registered. `feed` is how the connector of that name has declared itself, merged.
    """

    vetoed: frozenset[str] = frozenset({"vetoed"})
    asking: frozenset[str] = frozenset()
    grown: frozenset[str] = frozenset()
    ceiling: CapabilitySet = ALL_CAPABILITIES - {Capability.MANAGE_ADMIN}
    escalates_sandbox: bool = False
    feed: ToolProfile = FEED
    # What was ever declared of `feed`: whether it only reads, destroys, lets content in.
    declared: tuple[tuple[bool, bool, bool], ...] = field(default=())

    def required(self, tool: str) -> CapabilitySet:
        """What a call of the tool needs, by the rules and not by the profile."""
        known = TOOLS[tool].required
        if tool == "feed" and not all(reads and not harms for reads, harms, _ in self.declared):
            known |= {Capability.MUTATE_EXTERNAL}
        return known | GIVES_ACCESS if tool in self.grown else known

    def ingests(self, tool: str) -> bool:
        """Whether a result of the tool lets content in; what a worker said has a tag of its own."""
        if tool == DELEGATE:
            return False
        lets_in = tool == "feed" and any(is_open for _, _, is_open in self.declared)
        return lets_in or tool not in TOOLS or TOOLS[tool].ingests


class SearchedTools(MemoryTools):
    """Tools of which some are found by a search alone."""

    @override
    async def recover_unadvertised(self, name: str, args: Mapping[str, Any]) -> Sequence[ToolSpec]:
        """The tool of that name, or the one that resembles everything."""
        named = [spec for spec in self.recoverable if spec.name == name]
        return named or self.recoverable[:1]


def nearest(name: str) -> str:
    """What a search finds that somebody made by calling a tool of that name."""
    return name if name in HIDDEN else HIDDEN[0]


def executor(policy: Policy, body: Body, names: Iterable[str] = tuple(TOOLS)) -> SearchedTools:
    """The tools under that policy."""
    tools = SearchedTools(*(_tool(TOOLS[name], policy, body) for name in names))
    tools.recoverable = [tools.by_name[name].spec for name in HIDDEN if name in tools.by_name]
    return tools


def _tool(known: Known, policy: Policy, body: Body) -> MemoryTool:
    profile = {"feed": policy.feed, "stranger": STRANGER}.get(known.name)
    required = profile.required() if profile else known.required
    return MemoryTool(
        known.name,
        required=required | GIVES_ACCESS if known.name in policy.grown else required,
        asks=known.asks or known.name in policy.asking,
        ingests=profile.ingests_untrusted if profile else known.ingests,
        idempotent=known.idempotent,
        cacheable=known.cacheable,
        parameters=WANTS_N if known.wants_n else ANY_OBJECT,
        body=body,
        decision=_decision(known, policy),
        replacement=DispatchRedact(known.redacts, "hide") if known.redacts else None,
        sandbox=known.escapes,
        advertised=known.advertised,
    )


def _decision(known: Known, policy: Policy) -> ToolDecision:
    if known.name in policy.vetoed:
        return DispatchDeny(f"never {known.name}")
    if known.rewrites is not None:
        return DispatchModify({"n": known.rewrites}, "cap")
    if known.injects:
        return DispatchInjectContext(known.injects, "warn")
    return DispatchAllow()
