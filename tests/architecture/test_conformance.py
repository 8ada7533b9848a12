"""Every numbered behaviour is shown by a test, or the page says why it is not."""

from __future__ import annotations

from tests.architecture.conformance import NUMBERS, gaps, shown


def test_every_number_is_shown_or_is_a_gap_with_a_reason() -> None:
    assert NUMBERS - shown().keys() <= gaps().keys()
