"""Replacing what a pattern of an agent's finds in a result, with bounds on time and size.

What is given up on raises: whoever asks must fail closed.
"""

from __future__ import annotations

from typing import Final

from app.engine.json.patterns import PATTERN_LIMIT_S, PatternGivenUp, compiled

# A short pattern with a long text could otherwise make a gigabyte of a megabyte.
REPLACED_CHARS: Final = 4 * 1024 * 1024


def with_replaced(pattern: str, text: str, new: str) -> str | None:
    """`text` with `new` for each occurrence; None without one. Raises PatternGivenUp.

    An empty occurrence is none: there is nothing to replace.
    """
    try:
        spans = _spans(pattern, text, longest=len(new))
    except TimeoutError:
        raise PatternGivenUp(f"no answer within {PATTERN_LIMIT_S:g} s") from None
    except ValueError as error:
        raise PatternGivenUp(str(error)) from error
    if not spans:
        return None
    starts = [start for start, _ in spans]
    ends = [0, *(end for _, end in spans)]
    kept = [text[end:start] for end, start in zip(ends, [*starts, len(text)], strict=True)]
    return new.join(kept)


def _spans(pattern: str, text: str, *, longest: int) -> list[tuple[int, int]]:
    # Not `concurrent`: the lock would change hands at every occurrence, each time for milliseconds
    # on a busy process, while the limit runs.
    found = compiled(pattern).finditer(text, timeout=PATTERN_LIMIT_S)
    spans: list[tuple[int, int]] = []
    for match in found:
        start, end = match.span()
        if start < end:
            spans.append((start, end))
        if len(spans) * longest > REPLACED_CHARS:
            raise PatternGivenUp(f"more than {REPLACED_CHARS} characters of replacements")
    return spans
