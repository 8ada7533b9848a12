"""Ids sort by time, carry version and variant, and depend on their arguments alone."""

from __future__ import annotations

import pytest

from app.errors import IdentityRequired
from app.ids import Identity, make_id


def test_an_id_is_a_prefix_and_a_uuid_of_version_seven() -> None:
    made = make_id("run", unix_ms=0x0123456789AB, chance=bytes(range(10)))
    assert made == "run_01234567-89ab-7001-8203-040506070809"


def test_later_ids_sort_after_earlier_ones() -> None:
    early = make_id("run", unix_ms=1, chance=b"\xff" * 10)
    late = make_id("run", unix_ms=2, chance=b"\x00" * 10)
    assert early < late


def test_too_little_chance_is_refused() -> None:
    with pytest.raises(ValueError, match="10 bytes"):
        make_id("run", unix_ms=1, chance=b"x")


def test_an_identity_must_have_its_triple_and_a_run_only_where_one_is_asked_for() -> None:
    whole = Identity("acme", "alice", "conv_1")
    whole.require()
    with pytest.raises(IdentityRequired, match="lacks run"):
        whole.require(run=True)
    with pytest.raises(IdentityRequired, match="lacks tenant, session"):
        Identity("", "alice", "\t", "run_1").require(run=True)


def test_the_session_s_scope_has_no_run() -> None:
    """C24"""
    scope = Identity("acme", "alice", "conv_1", "run_1").session_scope()
    assert scope == Identity("acme", "alice", "conv_1")
