from __future__ import annotations

import pytest
from pydantic import ValidationError

from app.engine.usage import FinishKind, FinishReason, Usage


def test_usage_is_added_per_field() -> None:
    """A3"""
    one = Usage(
        input_tokens=1,
        output_tokens=2,
        total_tokens=3,
        cached_input_tokens=4,
        cache_creation_input_tokens=5,
        tool_use_prompt_tokens=6,
        reasoning_tokens=7,
    )
    assert one + one == Usage(
        input_tokens=2,
        output_tokens=4,
        total_tokens=6,
        cached_input_tokens=8,
        cache_creation_input_tokens=10,
        tool_use_prompt_tokens=12,
        reasoning_tokens=14,
    )


@pytest.mark.parametrize("count", [-1, True, 1.0, "1"])
def test_a_count_is_a_natural_number(count: object) -> None:
    with pytest.raises(ValidationError):
        Usage.model_validate({"input_tokens": count})


@pytest.mark.parametrize(
    ("kind", "truncates"),
    [
        ("stop", False), ("length", True), ("tool_calls", False), ("content_filter", True),
        ("failed", False), ("other", False),
    ],
)  # fmt: skip
def test_only_length_and_content_filter_truncate(kind: FinishKind, truncates: bool) -> None:
    assert FinishReason(kind=kind).truncates is truncates
