"""What becomes of a server's words about a tool: believed only where an operator vouches for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from app.log.servers import McpTool
from app.policy.capability import ALL_CAPABILITIES, Capability
from app.policy.consent import Consent
from app.tools.mcp.offered import tools_of
from app.tools.outcomes import answered
from tests.tools.mcp.servers import process
from tests.tools.played import invocation

if TYPE_CHECKING:
    from app.log.servers import McpServerRecord
    from app.tools.ports import Workspace
    from app.tools.registry import RegisteredTool
    from app.turn.ports import ToolInvocation, ToolOutcome

READS = frozenset({Capability.FIXED_CONNECTOR_READ})
WRITES = READS | {Capability.MUTATE_EXTERNAL}
KIND = McpTool(
    name="t",
    description="Harmless, says its server.",
    parameters={"type": "object"},
    read_only=True,
    destructive=False,
    open_world=False,
    idempotent=True,
)


@dataclass
class Calls:
    """Notes whether a call may be sent again."""

    repeatable: list[bool] = field(default_factory=list)

    async def call(
        self, server: McpServerRecord, tool: McpTool, call: ToolInvocation, *, repeatable: bool
    ) -> ToolOutcome:
        self.repeatable.append(repeatable)
        return answered({"text": "ok"})


def only(calls: Calls, tool: McpTool = KIND, **server: Any) -> RegisteredTool:
    """The one tool of a server that lists it."""
    (made,) = tools_of(process(tools=(tool,), **server), calls)
    return made


@dataclass(frozen=True)
class Case:
    """A tool as it is pinned, and what it is once its server is registered."""

    id: str
    pinned: dict[str, Any]
    requires: frozenset[Capability]
    consent: Consent
    idempotent: bool
    repeatable: bool


CASES = [
    Case("kind in every way", {}, READS, Consent.ALLOW, idempotent=True, repeatable=True),
    Case(
        "a reader", {"idempotent": False}, READS, Consent.ALLOW, idempotent=False, repeatable=True
    ),
    Case(
        "an idempotent writer",
        {"read_only": False},
        WRITES,
        Consent.ASK,
        idempotent=True,
        repeatable=True,
    ),
    Case(
        "a writer",
        {"read_only": False, "idempotent": False},
        WRITES,
        Consent.ASK,
        idempotent=False,
        repeatable=False,
    ),
    Case(
        "a reader that destroys",
        {"destructive": True, "idempotent": False},
        WRITES,
        Consent.ASK,
        idempotent=False,
        repeatable=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_registered_server_is_believed(case: Case) -> None:
    calls = Calls()
    made = only(calls, replace(KIND, **case.pinned), registered=True)
    assert (made.required_capabilities, made.consent) == (case.requires, case.consent)
    assert (made.idempotent, made.is_session_approvable) == (case.idempotent, case.idempotent)
    assert made.ingests_untrusted is False
    await made.body(invocation(made.name, {}), cast("Workspace", None))
    assert calls.repeatable == [case.repeatable]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_no_word_of_an_unregistered_server_is_believed(case: Case) -> None:
    """T85, I12: it asks for everything, taints, and is never called twice or for a session."""
    calls = Calls()
    made = only(calls, replace(KIND, **case.pinned))
    assert made.required_capabilities == ALL_CAPABILITIES
    assert (made.ingests_untrusted, made.idempotent, made.is_session_approvable) == (
        True,
        False,
        False,
    )
    assert made.spec.trust.taints
    await made.body(invocation(made.name, {}), cast("Workspace", None))
    assert calls.repeatable == [False]


def test_an_open_world_taints_by_its_results_and_not_by_its_words() -> None:
    made = only(Calls(), replace(KIND, open_world=True), registered=True)
    assert (made.ingests_untrusted, made.spec.trust.taints) == (True, False)


def test_a_card_is_titled_by_names_and_never_by_what_a_server_says() -> None:
    made = only(Calls(), replace(KIND, description="Approve me!"), registered=True)
    assert (made.name, made.title, made.server) == ("github__t", "github: t", "github")


def test_what_is_not_listed_any_more_is_no_tool_and_what_is_away_is_not_viable() -> None:
    gone = process(tools=(replace(KIND, is_listed=False),))
    assert tools_of(gone, Calls()) == ()
    made = only(Calls(), why_not="its server is not reachable")
    assert (made.is_viable, made.why_not) == (False, "its server is not reachable")


def test_a_definition_that_changes_in_any_way_has_another_digest() -> None:
    """F16: description, schema, and what is believed of it."""
    changes: list[dict[str, Any]] = [
        {},
        {"description": "Pays."},
        {"parameters": {"type": "object", "required": ["to"]}},
        {"hints": {"read_only": True}},
        {"read_only": False},
        {"destructive": True},
        {"open_world": True},
    ]
    made = [only(Calls(), replace(KIND, **change), registered=True) for change in changes]
    elsewhere = only(Calls(), registered=True, command="another")
    digests = {tool.definition_digest for tool in [*made, elsewhere]}
    assert len(digests) == len(changes) + 1


@pytest.mark.parametrize(
    "change",
    [
        {"name": "u"},
        {"description": "Harmless, says its server. "},
        {"parameters": {"type": "object", "required": ["to"]}},
        {"hints": {"read_only": True}},
    ],
    ids="".join,
)
def test_whatever_a_server_declares_otherwise_is_another_definition(change: dict[str, Any]) -> None:
    """F16: each by itself, for what is called is compared with what was offered."""
    assert KIND.is_defined_as(replace(KIND))
    assert not replace(KIND, **change).is_defined_as(KIND)
