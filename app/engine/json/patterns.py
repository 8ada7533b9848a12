"""Patterns of people who are not us, on texts of people who are not us: bounded in time and size.

A backtracking pattern can take longer than the age of the world, so each gets 50 ms. Compiling is
bounded as well: what must repeat is written out, so that `a{1000000000}` would take all memory.
What is given up on raises, and whoever asks must fail closed.
"""

from __future__ import annotations

import re
from typing import Final

import regex

PATTERN_LIMIT_S: Final = 0.05
MAX_PATTERN_CHARS: Final = 1000
MAX_WRITTEN_OUT: Final = 10_000

_TOKEN: Final = re.compile(
    r"""\\.                                             # an escape
    | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]           # a set
    | \{(?P<least>[0-9]+)(?:,[0-9]*)?\}                 # how often what is before it repeats
    | .""",
    re.DOTALL | re.VERBOSE,
)
# What changes how a pattern is read: comments, the verbose form, and sets within sets.
_OTHER_SYNTAX: Final = re.compile(r"\(\?(?:#|[a-zA-Z0-9]*[xV])")


class PatternGivenUp(Exception):
    """The pattern took too long, is too large, or is none."""


def compiled(pattern: str) -> regex.Pattern[str]:
    """The pattern, ready to use. Raises ValueError for one that is none, or too large."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"a pattern has at most {MAX_PATTERN_CHARS} characters")
    if _OTHER_SYNTAX.search(pattern):
        raise ValueError("comments, (?x) and (?V1) are not supported")
    if _written_out(pattern) > MAX_WRITTEN_OUT:
        raise ValueError(f"what it repeats comes to more than {MAX_WRITTEN_OUT} parts")
    try:
        return regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error


def occurs(pattern: str, text: str, *, limit_s: float = PATTERN_LIMIT_S) -> bool:
    """Whether the pattern occurs in the text. Raises PatternGivenUp."""
    try:
        # With `concurrent` other threads run on meanwhile.
        found = compiled(pattern).search(text, timeout=limit_s, concurrent=True)
    except TimeoutError:
        raise PatternGivenUp(f"no answer within {limit_s:g} s") from None
    except ValueError as error:
        raise PatternGivenUp(str(error)) from error
    return found is not None


def _written_out(pattern: str) -> int:
    """How many parts the pattern has once everything that must repeat stands there so often."""
    sizes, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        if token["least"] is not None:
            repeated = last * max(1, int(token["least"]))
            sizes[-1] += repeated - last
            last = repeated
        elif token[0] == "(":
            sizes.append(0)
        elif token[0] == ")":
            # One that closes nothing is taken to close everything, which is never too little.
            last = sizes.pop() if len(sizes) > 1 else sizes[0]
            sizes[-1] += last
        else:
            last = 1
            sizes[-1] += 1
    return sum(sizes)
