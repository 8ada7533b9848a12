"""Taint only removes, never-granted stays so, and consents cover what they name (turn.md 6.8)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.policy.capability import (
    NEVER_GRANTED,
    NO_CAPABILITIES,
    ORDINARY,
    Capability,
    CapabilitySet,
    parse_capabilities,
)
from app.policy.constraints import Constraint
from app.policy.grants import GrantPolicy, RememberedGrant, SessionApproval, serving_grant

EGRESS = frozenset({Capability.ARBITRARY_EGRESS})
MUTATE = frozenset({Capability.MUTATE_EXTERNAL})
SAFE = parse_capabilities(["local-read", "local-write", "fixed-connector-read"])

ORDINARY_SETS = st.frozensets(st.sampled_from(sorted(ORDINARY)))


def test_the_default_base_is_the_five_ordinary_capabilities() -> None:
    assert GrantPolicy().granted(tainted=False) == SAFE | EGRESS | MUTATE


def test_taint_takes_both_ways_out_away_and_nothing_else() -> None:
    """T84."""
    assert GrantPolicy().granted(tainted=True) == SAFE


def test_a_resilient_capability_survives_taint() -> None:
    policy = GrantPolicy(taint_resilient=EGRESS)
    assert policy.granted(tainted=True) == SAFE | EGRESS


@settings(max_examples=60)
@given(
    base=ORDINARY_SETS, resilient=ORDINARY_SETS, extra=st.frozensets(st.sampled_from(Capability))
)
def test_taint_never_adds(
    base: CapabilitySet, resilient: CapabilitySet, extra: CapabilitySet
) -> None:
    """T83, also for a call under a remembered grant."""
    policy = GrantPolicy(base, resilient & base)
    assert policy.granted(tainted=True) <= policy.granted(tainted=False)
    lifted = policy.with_resilient(extra)
    assert policy.granted(tainted=True) <= lifted.granted(tainted=True) <= base
    assert lifted.granted(tainted=False) == base


@pytest.mark.parametrize("capability", sorted(NEVER_GRANTED))
def test_no_base_may_hold_what_is_never_granted(capability: Capability) -> None:
    with pytest.raises(ValueError, match=f"base must not contain {capability}"):
        GrantPolicy(base=ORDINARY | {capability})


def test_resilience_beyond_the_base_is_refused() -> None:
    with pytest.raises(ValueError, match="not within base: arbitrary-egress"):
        GrantPolicy(base=SAFE, taint_resilient=EGRESS)


def test_a_remembered_grant_resists_taint_within_the_base_only() -> None:
    """T103, T105: what is not covered still asks."""
    grant = RememberedGrant(EGRESS, grant_ref="grant_1", coverage_hash="h1")
    assert GrantPolicy().with_resilient(grant.covered).granted(tainted=True) == SAFE | EGRESS
    assert GrantPolicy(base=SAFE).with_resilient(grant.covered).granted(tainted=True) == SAFE


@dataclass(frozen=True)
class Fit:
    id: str
    covered: CapabilitySet
    missing: CapabilitySet
    cacheable: bool
    fits: bool


GRANT_ACCESS = frozenset({Capability.GRANT_ACCESS})
FITS = (
    Fit("covers-what-is-missing (T97)", EGRESS, EGRESS, True, True),
    Fit("more-is-missing (T98)", EGRESS, EGRESS | MUTATE, True, False),
    Fit("tool-not-cacheable (T99)", EGRESS, EGRESS, False, False),
    Fit("ordinary-rule (T102)", NO_CAPABILITIES, NO_CAPABILITIES, True, True),
    Fit("never-granted (T87)", GRANT_ACCESS, GRANT_ACCESS, True, False),
    Fit("covers-more-than-is-missing", EGRESS | MUTATE, MUTATE, True, True),
)


@pytest.mark.parametrize("case", FITS, ids=lambda case: case.id)
def test_a_session_approval_fits_what_its_decision_covered(case: Fit) -> None:
    approval = SessionApproval(case.covered, approval_id="appr_1")
    assert approval.fits(case.missing, cacheable=case.cacheable) is case.fits


HOME = Constraint("/url", "url_prefix", "https://ours.example/in")
BOTH = EGRESS | MUTATE
WIDE = RememberedGrant(BOTH, "wide", "h1", (HOME,), 2_000)
NARROW = RememberedGrant(EGRESS, "narrow", "h2")


@dataclass(frozen=True)
class Service:
    id: str
    url: str
    now_ms: int
    serving: str | None
    grants: tuple[RememberedGrant, ...] = (NARROW, WIDE)


SERVICES = (
    Service("that-which-covers-most", "https://ours.example/in/1", 1_999, "wide"),
    Service("its-time-is-over", "https://ours.example/in/1", 2_000, "narrow"),
    Service("a-constraint-is-not-met", "https://else.example/in/1", 1_999, "narrow"),
    Service("none-is-left", "https://else.example/in/1", 1_999, None, (WIDE,)),
    Service("there-is-none", "https://ours.example/in/1", 1_999, None, ()),
)


@pytest.mark.parametrize("case", SERVICES, ids=lambda case: case.id)
def test_one_grant_serves_a_call(case: Service) -> None:
    found = serving_grant(case.grants, {"url": case.url}, required=BOTH, now_ms=case.now_ms)
    assert (found and found.grant_ref) == case.serving
