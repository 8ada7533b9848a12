"""Tags are ordered, join to the highest, and an unknown one is an error (turn.md 5.5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.policy.taint import Trust, highest, tag_of_answer

WIRE = ((0, "unspecified"), (1, "trusted_user"), (2, "quarantined_content"))


@pytest.mark.parametrize(("byte", "name"), WIRE)
def test_each_tag_has_one_byte_and_one_name(byte: int, name: str) -> None:
    assert Trust.from_byte(byte) is Trust.from_wire(name)
    assert int(Trust.from_wire(name)) == byte
    assert Trust.from_byte(byte).wire == name


@pytest.mark.parametrize("byte", [-1, 3, 255])
def test_an_unknown_byte_is_corruption(byte: int) -> None:
    """T94."""
    with pytest.raises(ValueError, match=f"unknown trust tag {byte}"):
        Trust.from_byte(byte)


@pytest.mark.parametrize("name", ["", "UNSPECIFIED", "Trusted_User", "trusted", "2"])
def test_an_unknown_name_is_corruption(name: str) -> None:
    """T94."""
    with pytest.raises(ValueError, match=f"unknown trust tag '{name}'"):
        Trust.from_wire(name)


def test_the_join_is_the_most_severe_tag() -> None:
    assert highest([Trust.TRUSTED_USER, Trust.QUARANTINED_CONTENT]) is Trust.QUARANTINED_CONTENT
    assert highest([Trust.TRUSTED_USER, Trust.UNSPECIFIED]) is Trust.TRUSTED_USER
    assert highest([]) is Trust.UNSPECIFIED


def test_quarantined_content_alone_taints() -> None:
    assert [tag.taints for tag in Trust] == [False, False, True]


@pytest.mark.parametrize(
    ("has_own_words", "is_principals_own", "tag"),
    [
        (False, False, Trust.TRUSTED_USER),
        (False, True, Trust.TRUSTED_USER),
        (True, True, Trust.TRUSTED_USER),
        (True, False, Trust.QUARANTINED_CONTENT),
    ],
)
def test_words_of_others_alone_make_an_answer_untrusted(
    has_own_words: bool, is_principals_own: bool, tag: Trust
) -> None:
    found = tag_of_answer(has_own_words=has_own_words, is_principals_own=is_principals_own)
    assert found is tag


@given(data=st.data())
def test_a_value_has_the_tag_of_everything_it_came_from(data: st.DataObject) -> None:
    """F115: in any graph of inputs, summaries, children's results and what is made of them."""
    own = data.draw(st.lists(st.sampled_from(Trust), min_size=1, max_size=12))
    sources: list[frozenset[int]] = []
    tags: list[Trust] = []
    for node, tag in enumerate(own):
        of = data.draw(st.frozensets(st.integers(0, node - 1))) if node else frozenset()
        tags.append(highest([tag, *(tags[one] for one in of)]))
        sources.append(frozenset({node}).union(*(sources[one] for one in of)))
        assert all(tags[node] >= own[one] for one in sources[node])
        assert tags[node] in {own[one] for one in sources[node]}
