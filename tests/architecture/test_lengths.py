"""Short files and short functions, in the source, the tests and the bench."""

from __future__ import annotations

from tests.architecture.sources import HOUSE, Place, functions

FILE_LINES = 350
FUNCTION_LINES = 60


def test_no_file_is_longer_than_350_lines() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in HOUSE}
    assert not [str(Place(path, size)) for path, size in lengths.items() if size > FILE_LINES]


def test_no_function_is_longer_than_60_lines() -> None:
    long = [
        f"{Place(path, function.lineno)} {function.name}"
        for path in HOUSE
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES
    ]
    assert not long
