"""The part of a download that a client asks for (RFC 9110 14): one range of bytes.

A header that is malformed, asks for several parts or in another unit is as if it was not there,
and so is one for a file that has another tag by now: then the whole file is the answer.
"""

from __future__ import annotations

import re
from typing import Final

from app.service.refusals import Refusal

# A place of more digits than any file has is no number that is worth reading.
_BYTES: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.IGNORECASE)


class RangeUnsatisfiable(Refusal):
    """No byte of the file is in the range that was asked for."""

    code = "artifact.range"

    def __init__(self, size: int) -> None:
        super().__init__(f"the file has {size} bytes", members={"size_bytes": size})


def part_of(size: int, asked: str | None) -> range | None:
    """The places of the bytes that a Range header means; None for all of them.

    Raises RangeUnsatisfiable.
    """
    found = _BYTES.fullmatch((asked or "").strip())
    if found is None:
        return None
    first, last = found.groups()
    if first:
        begin, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < begin:
            return None
    elif last:
        begin, end = max(0, size - int(last)), size
    else:
        return None
    if begin >= size:
        raise RangeUnsatisfiable(size)
    return range(begin, end)
