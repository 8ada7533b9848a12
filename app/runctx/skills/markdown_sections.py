"""The Markdown of a SKILL.md in pieces, cut before each second-level heading. Pure.

The pieces in file order are the text, to the letter. A heading inside a code fence cuts nothing.
Lines end where CommonMark ends them: a form feed or U+2028 is a character like any other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_HEADING: Final = re.compile(r" {0,3}##(?![^ \t])")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")


@dataclass(frozen=True, slots=True)
class Section:
    """A piece with its heading; what stands before the first one has none."""

    title: str
    text: str


def sections(text: str) -> list[Section]:
    """The pieces, none of them blank but where all is; blank lines belong to what follows."""
    found: list[Section] = []
    title, piece, fence = "", "", ""
    for line in _LINE.findall(text):
        bare = line.rstrip("\r\n")
        heading = None if fence else _HEADING.match(bare)
        if heading is not None:
            if piece.strip():
                found.append(Section(title, piece))
                piece = ""
            title = _title(bare[heading.end() :])
        fence = _fence_after(fence, bare)
        piece += line
    return [*found, Section(title, piece)] if piece else found


def _title(marked: str) -> str:
    """What a heading says, without the marks that may close it."""
    said = marked.strip(" \t")
    bare = said.rstrip("#")
    return bare.rstrip(" \t") if not bare or bare[-1] in " \t" else said


def _fence_after(fence: str, line: str) -> str:
    """The fence that is open behind the line, given the one that is open before it."""
    mark = _FENCE.match(line)
    if mark is None:
        return fence
    if not fence:
        return "" if mark[1][0] == "`" and "`" in mark[2] else mark[1]
    closes = mark[1].startswith(fence) and not mark[2].strip(" \t")
    return "" if closes else fence
