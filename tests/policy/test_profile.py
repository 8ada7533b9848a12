"""What each origin requires, and that a second declaration never lowers it (turn.md 5.2)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.policy.capability import ALL_CAPABILITIES, Capability, parse_capabilities
from app.policy.profile import Origin, ToolProfile


@dataclass(frozen=True)
class Case:
    id: str
    profile: ToolProfile
    required: str


def quiet(origin: Origin, *, read_only: bool = False, destructive: bool = False) -> ToolProfile:
    return ToolProfile(origin, read_only=read_only, destructive=destructive, open_world=False)


CASES = (
    Case("sandbox-read", quiet(Origin.LOCAL_SANDBOX, read_only=True), "local-read"),
    Case("sandbox-write", quiet(Origin.LOCAL_SANDBOX), "local-read local-write"),
    Case("fetcher", quiet(Origin.FETCHER), "arbitrary-egress"),
    Case(
        "fetcher-destructive",
        quiet(Origin.FETCHER, destructive=True),
        "arbitrary-egress mutate-external",
    ),
    Case("first-party-read", quiet(Origin.FIRST_PARTY, read_only=True), "fixed-connector-read"),
    Case("first-party-write", quiet(Origin.FIRST_PARTY), "fixed-connector-read mutate-external"),
    Case(
        "connector-read",
        quiet(Origin.REGISTERED_CONNECTOR, read_only=True),
        "fixed-connector-read",
    ),
    Case(
        "connector-that-contradicts-itself",
        quiet(Origin.REGISTERED_CONNECTOR, read_only=True, destructive=True),
        "fixed-connector-read mutate-external",
    ),
    Case("access-grant", quiet(Origin.ACCESS_GRANT, read_only=True), "grant-access"),
    Case("access-revoke", quiet(Origin.ACCESS_REVOKE), "revoke-access"),
    Case("admin-manage", quiet(Origin.ADMIN_MANAGE), "manage-admin"),
    Case("admin-grant", quiet(Origin.ADMIN_GRANT), "grant-admin"),
    Case(
        "shell-adds-egress",
        ToolProfile(Origin.LOCAL_SANDBOX, extra=frozenset({Capability.ARBITRARY_EGRESS})),
        "local-read local-write arbitrary-egress",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_origin_and_annotations_give_the_required_set(case: Case) -> None:
    assert case.profile.required() == parse_capabilities(case.required.split())


@pytest.mark.parametrize("read_only", [True, False])
def test_an_unregistered_tool_requires_everything_whatever_it_says(read_only: bool) -> None:
    """T85, I11, I12."""
    assert quiet(Origin.UNKNOWN, read_only=read_only).required() == ALL_CAPABILITIES
    assert ToolProfile(Origin.UNKNOWN).required() == ALL_CAPABILITIES


def test_content_comes_in_through_open_fetching_and_unknown_tools() -> None:
    assert ToolProfile(Origin.FIRST_PARTY, open_world=True).ingests_untrusted
    assert quiet(Origin.FETCHER).ingests_untrusted
    assert quiet(Origin.UNKNOWN).ingests_untrusted
    assert not quiet(Origin.FIRST_PARTY).ingests_untrusted
    assert not quiet(Origin.LOCAL_SANDBOX).ingests_untrusted


def test_open_world_requires_nothing_more() -> None:
    closed = quiet(Origin.FIRST_PARTY, read_only=True)
    open_ = ToolProfile(Origin.FIRST_PARTY, read_only=True, destructive=False, open_world=True)
    assert open_.required() == closed.required()


def test_annotations_left_out_are_taken_at_their_worst() -> None:
    silent = ToolProfile(Origin.REGISTERED_CONNECTOR)
    assert silent.required() == parse_capabilities(["fixed-connector-read", "mutate-external"])
    assert silent.ingests_untrusted


def test_a_second_declaration_keeps_the_origin_and_the_less_trusted_flags() -> None:
    registered = quiet(Origin.FIRST_PARTY, read_only=True)
    bold = ToolProfile(Origin.LOCAL_SANDBOX, read_only=False, destructive=True, open_world=True)
    assert registered.merged(bold) == ToolProfile(
        Origin.FIRST_PARTY, read_only=False, destructive=True, open_world=True
    )
    assert bold.merged(registered) == bold


PROFILES = st.builds(
    ToolProfile,
    st.sampled_from(Origin),
    read_only=st.booleans(),
    destructive=st.booleans(),
    open_world=st.booleans(),
    extra=st.frozensets(st.sampled_from(Capability)),
)


@settings(max_examples=60)
@given(old=PROFILES, new=PROFILES)
def test_merging_never_lowers_a_requirement(old: ToolProfile, new: ToolProfile) -> None:
    """T86."""
    merged = old.merged(new)
    assert merged.required() >= old.required()
    assert merged.origin is old.origin
    assert merged.ingests_untrusted or not old.ingests_untrusted
