"""Patterns of people who are not us, on text of people who are not us, with a bound on both.

A backtracking pattern can take longer than the age of the world, so each gets 50 ms of the
process's time. What is given up on raises: whoever asks must fail closed.
"""

from __future__ import annotations

from typing import Final

import regex

PATTERN_LIMIT_S: Final = 0.05
# A short pattern with a long text could otherwise make a gigabyte of a megabyte.
REPLACED_CHARS: Final = 4 * 1024 * 1024


class PatternGivenUp(Exception):
    """The pattern took too long, or its replacement grew too large."""


def occurs(pattern: str, text: str) -> bool:
    """Whether the pattern occurs in the text. Raises PatternGivenUp."""
    try:
        # With `concurrent` other threads run on meanwhile.
        found = regex.compile(pattern).search(text, timeout=PATTERN_LIMIT_S, concurrent=True)
    except TimeoutError:
        raise PatternGivenUp(f"no answer within {PATTERN_LIMIT_S:g} s") from None
    return found is not None


def with_replaced(pattern: str, text: str, new: str) -> str | None:
    """`text` with `new` for each occurrence; None without one. Raises PatternGivenUp.

    An empty occurrence is none: there is nothing to replace.
    """
    try:
        spans = _spans(pattern, text, longest=len(new))
    except TimeoutError:
        raise PatternGivenUp(f"no answer within {PATTERN_LIMIT_S:g} s") from None
    if not spans:
        return None
    starts = [start for start, _ in spans]
    ends = [0, *(end for _, end in spans)]
    kept = [text[end:start] for end, start in zip(ends, [*starts, len(text)], strict=True)]
    return new.join(kept)


def _spans(pattern: str, text: str, *, longest: int) -> list[tuple[int, int]]:
    # Not `concurrent`: the lock would change hands at every occurrence, each time for milliseconds
    # on a busy process, while the limit runs.
    found = regex.compile(pattern).finditer(text, timeout=PATTERN_LIMIT_S)
    spans: list[tuple[int, int]] = []
    for match in found:
        start, end = match.span()
        if start < end:
            spans.append((start, end))
        if len(spans) * longest > REPLACED_CHARS:
            raise PatternGivenUp(f"more than {REPLACED_CHARS} characters of replacements")
    return spans
