"""Every numbered behaviour is shown by a test, or the page says why it is not."""

from __future__ import annotations

from tests.architecture.conformance import DOCUMENT, NUMBERS, gaps, page, shown


def test_every_number_is_shown_or_is_a_gap_with_a_reason() -> None:
    assert NUMBERS - shown().keys() == gaps().keys()


def test_the_page_is_what_the_tests_say() -> None:
    assert DOCUMENT.read_text() == page(), "python -m tests.architecture.conformance writes it"
