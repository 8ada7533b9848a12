"""Names are kebab-case, the sets are those of turn.md 5.1, and unknown names fail closed."""

from __future__ import annotations

import pytest

from app.policy.capability import (
    ALL_CAPABILITIES,
    NEVER_GRANTED,
    ORDINARY,
    TAINT_REVOKED,
    Capability,
    in_order,
    parse_capabilities,
    parse_capability,
)

ORDINARY_NAMES = {
    "local-read",
    "local-write",
    "fixed-connector-read",
    "arbitrary-egress",
    "mutate-external",
}
NEVER_NAMES = {"grant-access", "revoke-access", "manage-admin", "grant-admin"}


def test_the_nine_names_are_kebab_case_on_the_wire() -> None:
    """T108: what is reported as missing uses these names."""
    assert {str(capability) for capability in ALL_CAPABILITIES} == ORDINARY_NAMES | NEVER_NAMES


def test_the_named_sets_hold_what_the_specification_lists() -> None:
    assert parse_capabilities(["arbitrary-egress", "mutate-external"]) == TAINT_REVOKED
    assert parse_capabilities(NEVER_NAMES) == NEVER_GRANTED
    assert parse_capabilities(ORDINARY_NAMES) == ORDINARY


@pytest.mark.parametrize("name", ["", "LOCAL_READ", "local_read", "Local-Read", "egress", "*"])
def test_an_unknown_name_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(ValueError, match="unknown capability") as caught:
        parse_capability(name)
    assert repr(name) in str(caught.value)


def test_one_unknown_name_spoils_the_whole_set() -> None:
    with pytest.raises(ValueError, match="'teleport'"):
        parse_capabilities(["local-read", "teleport"])


def test_members_are_listed_in_declared_order() -> None:
    shuffled = parse_capabilities(["grant-admin", "local-read", "mutate-external"])
    assert in_order(shuffled) == (
        Capability.LOCAL_READ,
        Capability.MUTATE_EXTERNAL,
        Capability.GRANT_ADMIN,
    )
