"""Whether an agent holds together: its tools, models, delegates, patterns, schema and approvers.

The check is pure. What there is to hold an agent against comes in as `Surroundings`; what is wrong
goes out as faults, all of them at once, each with the pointer of its member.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from app.engine.json.output_schema import require_usable
from app.engine.json.patterns import compiled
from app.engine.json.pointer import pointer_token, pointer_tokens
from app.service.agents.mcp_spec import server_named
from app.service.refusals import FieldFault
from app.turn.texts import ASK_QUESTION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.service.agents.spec import AgentSpec, DispatchRule

_MODELS: Final = (
    "there are script, openai:NAME, anthropic:NAME, google:NAME "
    "and the compatible:SERVER/NAME of servers that the operator names"
)
_MEMBERS: Final = {
    "deny": frozenset({"when"}),
    "ask": frozenset({"when"}),
    "rewrite": frozenset({"when", "set"}),
    "inject": frozenset({"when", "text"}),
    "redact": frozenset({"pattern", "text"}),
}


class ModelCatalogue(Protocol):
    """The models of this deployment, by what an agent may ask of them."""

    def knows(self, model: str) -> bool: ...
    def can_search(self, model: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an agent is held against; `agents` are those of its delegates that exist.

    `recalls` where turns can be found by meaning.
    """

    tools: frozenset[str]
    servers: frozenset[str]
    agents: frozenset[str]
    models: ModelCatalogue
    recalls: bool = False


def faults_of(spec: AgentSpec, around: Surroundings) -> tuple[FieldFault, ...]:
    """Everything about the agent that does not hold."""
    return (
        *_model_faults(spec, around),
        *_tool_faults(spec, around),
        *_rule_names(spec, around),
        *_approver_faults(spec),
        *_grant_faults(spec),
        *_dispatch_faults(spec),
        *_delegate_faults(spec, around),
        *_schema_faults(spec),
        *_memory_faults(spec, around),
    )


def lowered_guards(spec: AgentSpec) -> tuple[str, ...]:
    """Pointers of the members that lower the guard, which only an administrator may set."""
    lowered = {
        "/grant_policy/taint_resilient": bool(spec.grant_policy.taint_resilient),
        "/attachments_policy/uploads_trusted": spec.attachments_policy.uploads_trusted,
        "/memory/caller_memory_trusted": spec.memory.caller_memory_trusted,
    }
    return tuple(pointer for pointer, is_lowered in lowered.items() if is_lowered)


def _model_faults(spec: AgentSpec, around: Surroundings) -> Iterator[FieldFault]:
    if not around.models.knows(spec.model):
        yield FieldFault("/model", f"no model is called {spec.model!r} here; {_MODELS}")
    elif spec.native_search and not around.models.can_search(spec.model):
        yield FieldFault("/native_search", f"{spec.model!r} has no search of its own")


def _tool_faults(spec: AgentSpec, around: Surroundings) -> Iterator[FieldFault]:
    for at, name in enumerate(spec.tools):
        server = server_named(name) if name.endswith(":*") else None
        if server is not None and server not in around.servers:
            yield FieldFault(f"/tools/{at}", f"no MCP server is called {server!r}")
        elif server is None and name != ASK_QUESTION and name not in around.tools:
            yield FieldFault(f"/tools/{at}", f"there is no tool {name!r}; GET /v1/tools lists them")
        elif name in spec.tools[:at]:
            yield FieldFault(f"/tools/{at}", f"{name!r} is listed twice")


def _rule_names(spec: AgentSpec, around: Surroundings) -> Iterator[FieldFault]:
    """A rule under a misspelt name would protect nothing, so a name must be able to match."""
    for name, consent in spec.approval.items():
        # Whoever may ask is allowed to.
        if (name, consent) != (ASK_QUESTION, "allow"):
            yield from _unmatched(name, f"/approval/{pointer_token(name)}", around)
    for name in spec.assurance.tools:
        yield from _unmatched(name, f"/assurance/tools/{pointer_token(name)}", around)
    for at, rule in enumerate(spec.dispatch_rules):
        yield from _unmatched(rule.tool, f"/dispatch_rules/{at}/tool", around)


def _unmatched(name: str, pointer: str, around: Surroundings) -> Iterator[FieldFault]:
    if name == ASK_QUESTION:
        yield FieldFault(pointer, f"{name!r} is never run, so no rule holds it")
    elif name != "*" and not _may_match(name, around):
        yield FieldFault(pointer, f"no tool can be called {name!r}")


def _may_match(name: str, around: Surroundings) -> bool:
    # A server, or a tool of it, may be registered later.
    return server_named(name) is not None or name in around.tools


def _approver_faults(spec: AgentSpec) -> Iterator[FieldFault]:
    who = spec.approvers
    if who.roles:
        return
    most = len(set(who.programs)) + who.allow_self
    if most == 0:
        yield FieldFault("/approvers", "nobody could approve: no self, no role, no program")
    elif who.count > most:
        yield FieldFault("/approvers/count", f"at most {most} could approve")


def _grant_faults(spec: AgentSpec) -> Iterator[FieldFault]:
    try:
        spec.grant_policy.policy()
    except ValueError as error:
        yield FieldFault("/grant_policy", str(error))


def _dispatch_faults(spec: AgentSpec) -> Iterator[FieldFault]:
    for at, rule in enumerate(spec.dispatch_rules):
        pointer = f"/dispatch_rules/{at}"
        yield from _member_faults(rule, pointer)
        if rule.pattern is not None:
            yield from _pattern_faults(rule.pattern, f"{pointer}/pattern")
        if rule.when is not None:
            yield from _pattern_faults(rule.when.pattern, f"{pointer}/when/pattern")


def _member_faults(rule: DispatchRule, pointer: str) -> Iterator[FieldFault]:
    allowed = _MEMBERS[rule.action]
    given = {name for name in ("when", "set", "pattern", "text") if getattr(rule, name) is not None}
    for name in sorted(given - allowed):
        yield FieldFault(f"{pointer}/{name}", f"{rule.action} does not take it")
    for name in sorted(allowed - given - {"when"}):
        yield FieldFault(pointer, f"{rule.action} needs {name}")
    for target in rule.set or {}:
        if target == "":
            yield FieldFault(f"{pointer}/set", "the arguments as a whole cannot be replaced")
        yield from _pointer_faults(target, f"{pointer}/set")
    if rule.when is not None:
        yield from _pointer_faults(rule.when.pointer, f"{pointer}/when/pointer")


def _pattern_faults(pattern: str, pointer: str) -> Iterator[FieldFault]:
    try:
        compiled(pattern)
    except ValueError as error:
        yield FieldFault(pointer, f"no regular expression: {error}")


def _pointer_faults(target: str, pointer: str) -> Iterator[FieldFault]:
    try:
        pointer_tokens(target)
    except ValueError as error:
        yield FieldFault(pointer, str(error))


def _delegate_faults(spec: AgentSpec, around: Surroundings) -> Iterator[FieldFault]:
    seen: set[str] = set()
    for at, delegate in enumerate(spec.delegates):
        if delegate.agent not in around.agents:
            yield FieldFault(f"/delegates/{at}/agent", f"there is no agent {delegate.agent!r}")
        elif delegate.agent in seen:
            yield FieldFault(f"/delegates/{at}/agent", f"{delegate.agent!r} is listed twice")
        seen.add(delegate.agent)
        for place, path in enumerate(delegate.share_in):
            if f"{posixpath.normpath(path)}/".startswith(("/", "../")):
                pointer = f"/delegates/{at}/share_in/{place}"
                yield FieldFault(pointer, f"{path!r} is not in the workspace")


def _schema_faults(spec: AgentSpec) -> Iterator[FieldFault]:
    if spec.output_schema is None:
        return
    try:
        require_usable(spec.output_schema)
    except ValueError as error:
        yield FieldFault("/output_schema", str(error))
        return
    # An answer is given as the arguments of a tool.
    kinds = spec.output_schema.get("type", "object")
    if kinds != "object" and not (isinstance(kinds, list) and "object" in kinds):
        yield FieldFault("/output_schema/type", 'an answer is an "object"')


def _memory_faults(spec: AgentSpec, around: Surroundings) -> Iterator[FieldFault]:
    if spec.memory.strategy != "none" and spec.memory.history == "conversation":
        reason = "with a strategy, the same turns would reach the model twice"
        yield FieldFault("/memory/history", reason)
    if spec.memory.retrieval == "semantic" and not around.recalls:
        reason = "the database has no vectors (pgvector), so no turn is found by meaning"
        yield FieldFault("/memory/retrieval", reason)
    compaction = spec.memory.compaction
    if compaction.enabled and compaction.keep_messages >= compaction.max_messages:
        reason = f"expected fewer than max_messages ({compaction.max_messages}), else nothing folds"
        yield FieldFault("/memory/compaction/keep_messages", reason)
