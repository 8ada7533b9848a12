"""The fixed order of `decide()`, and the words people read (turn.md 5.4)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.policy.capability import (
    ALL_CAPABILITIES,
    NEVER_GRANTED,
    NO_CAPABILITIES,
    Capability,
    CapabilitySet,
    parse_capabilities,
)
from app.policy.gate import (
    Allow,
    CallPolicy,
    Deny,
    Escalate,
    GateOutcome,
    InjectContext,
    Modify,
    decide,
    escalation_reason,
)
from app.policy.grants import GrantPolicy
from app.policy.profile import Origin, ToolProfile

EGRESS = frozenset({Capability.ARBITRARY_EGRESS})
READ = frozenset({Capability.LOCAL_READ})
REWRITE = Modify({"path": "b.txt"})
NOTE = InjectContext("be brief")
EGRESS_REASON = "t needs a person's consent: it can send data to an address the model chooses."


@dataclass(frozen=True)
class Case:
    id: str
    required: CapabilitySet
    policy: CallPolicy
    outcome: GateOutcome


CASES = (
    Case("nothing-in-the-way", READ, CallPolicy(), Allow()),
    Case("veto (T81)", READ, CallPolicy(veto="no"), Deny("no")),
    Case("an-empty-veto-is-a-veto", READ, CallPolicy(veto=""), Deny("")),
    Case(
        "veto-before-missing (T81)",
        EGRESS,
        CallPolicy(veto="no", requires_human=True),
        Deny("no"),
    ),
    Case(
        "missing-before-the-rule (T82)",
        EGRESS,
        CallPolicy(requires_human=True),
        Escalate(EGRESS_REASON, EGRESS),
    ),
    Case(
        "the-rule-alone (T82)",
        READ,
        CallPolicy(requires_human=True),
        Escalate("", NO_CAPABILITIES),
    ),
    Case(
        "the-sandbox-alone (T110)",
        READ,
        CallPolicy(sandbox_escalation=True),
        Escalate("", NO_CAPABILITIES),
    ),
    Case("rewrite (T82)", READ, CallPolicy(transform=REWRITE), REWRITE),
    Case("note (T82)", READ, CallPolicy(transform=NOTE), NOTE),
    Case(
        "asking-drops-the-rewrite",
        READ,
        CallPolicy(requires_human=True, transform=REWRITE),
        Escalate("", NO_CAPABILITIES),
    ),
    Case(
        "missing-drops-the-rewrite",
        EGRESS,
        CallPolicy(transform=REWRITE),
        Escalate(EGRESS_REASON, EGRESS),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_order_of_the_rules_is_fixed(case: Case) -> None:
    outcome = decide(case.required, READ, call_policy=case.policy, tool_name="t")
    assert outcome == case.outcome


def test_every_outcome_has_a_stable_label() -> None:
    outcomes: tuple[GateOutcome, ...] = (
        Allow(),
        REWRITE,
        NOTE,
        Escalate("", NO_CAPABILITIES),
        Deny(""),
    )
    labels = [outcome.label for outcome in outcomes]
    assert labels == ["allow", "modify", "inject_context", "escalate", "deny"]


def verdict(profile: ToolProfile, *, tainted: bool) -> str:
    granted = GrantPolicy().granted(tainted)
    return decide(profile.required(), granted, call_policy=CallPolicy(), tool_name="t").label


FETCH = ToolProfile(Origin.FETCHER, destructive=False)
FILE_READ = ToolProfile(Origin.LOCAL_SANDBOX, read_only=True)
FILE_WRITE = ToolProfile(Origin.LOCAL_SANDBOX)
CONNECTOR_READ = ToolProfile(Origin.REGISTERED_CONNECTOR, read_only=True, destructive=False)
CONNECTOR_WRITE = ToolProfile(Origin.REGISTERED_CONNECTOR)


@pytest.mark.parametrize("profile", [FETCH, CONNECTOR_WRITE])
def test_under_taint_egress_and_external_mutation_ask(profile: ToolProfile) -> None:
    """T84, T88, T89, T96: they ask, are not refused, and run while the context is clean."""
    assert verdict(profile, tainted=True) == "escalate"
    assert verdict(profile, tainted=False) == "allow"


@pytest.mark.parametrize("profile", [FILE_READ, FILE_WRITE, CONNECTOR_READ])
def test_under_taint_local_calls_and_fixed_connector_reads_run(profile: ToolProfile) -> None:
    """T84."""
    assert verdict(profile, tainted=True) == "allow"


def test_an_unregistered_tool_asks_even_when_clean() -> None:
    """T85."""
    assert verdict(ToolProfile(Origin.UNKNOWN), tainted=False) == "escalate"


@pytest.mark.parametrize(
    "origin",
    [Origin.ACCESS_GRANT, Origin.ACCESS_REVOKE, Origin.ADMIN_MANAGE, Origin.ADMIN_GRANT],
)
def test_what_gives_or_takes_access_always_asks(origin: Origin) -> None:
    """T87."""
    assert verdict(ToolProfile(origin), tainted=False) == "escalate"


def test_a_ceiling_without_egress_excludes_the_shell_and_admits_a_file_read() -> None:
    """T95: a sandbox bounds files, it does not prove network isolation."""
    ceiling = ALL_CAPABILITIES - EGRESS
    shell = ToolProfile(Origin.LOCAL_SANDBOX, extra=EGRESS)
    assert not shell.required() <= ceiling
    assert FILE_READ.required() <= ceiling


def test_a_tool_that_may_change_something_is_said_to_be_able_to() -> None:
    """An unannotated tool lands here, so the text must not claim that it will."""
    reason = escalation_reason("mail__send", frozenset({Capability.MUTATE_EXTERNAL}))
    assert reason == "mail__send needs a person's consent: it could change something outside."


def test_several_effects_are_named_in_one_fixed_order() -> None:
    missing = parse_capabilities(["mutate-external", "local-write", "arbitrary-egress"])
    assert escalation_reason("shell_exec", missing) == (
        "shell_exec needs a person's consent: it can write or delete files in the workspace, "
        "can send data to an address the model chooses and could change something outside."
    )


def test_every_capability_has_words_of_its_own() -> None:
    """T82."""
    texts = {escalation_reason("t", frozenset({one})) for one in ALL_CAPABILITIES}
    assert len(texts) == len(ALL_CAPABILITIES)
    assert "administrator" in escalation_reason("t", NEVER_GRANTED)
