from __future__ import annotations

from typing import Annotated, Any, cast

import pytest

from app.engine.expect import members, require, require_all


def test_the_members_of_a_tagged_union_are_its_classes() -> None:
    assert members(Annotated[int | str, "tag"]) == int | str


def test_a_value_of_another_kind_is_named_with_what_was_expected() -> None:
    require(str, name="a")
    require_all(int | str, names=["a", 1])
    require_all(str, names=())
    with pytest.raises(ValueError, match="name: expected str, found int"):
        require(str, name=1)
    with pytest.raises(ValueError, match=r"names\[1\]: expected int or str, found float"):
        require_all(int | str, names=["a", 1.5])
    with pytest.raises(ValueError, match="names: expected tuple or list, found str"):
        require_all(str, names=cast("Any", "ab"))
