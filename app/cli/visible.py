"""Text in which nothing hides: what cannot be seen, or turns what can, is shown as an escape."""

from __future__ import annotations

import unicodedata
from typing import Final

# Controls, formats (direction marks, zero-width characters), surrogates, private and unassigned
# characters, and the spaces that are not the space.
_HIDING: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})


def visible(text: str) -> str:
    """The text for a terminal, such as `\\u202e` in the place of what turns a line around."""
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character == " " or unicodedata.category(character) not in _HIDING:
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
