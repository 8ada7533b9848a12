"""Text that Postgres cannot hold, kept reversibly: it refuses U+0000 in every kind of text.

`escape` replaces it by two characters that begin with the noncharacter U+FFFF, and U+FFFF by two as
well, so different texts stay different and comparing escaped texts compares the texts. In JSON the
NUL is written as an escape already; `json` columns keep that, `jsonb` ones refuse it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

_MARK: Final = "\uffff"
_ESCAPED_NUL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def escape(text: str) -> str:
    """The form in which any text can be stored and compared."""
    if "\0" not in text and _MARK not in text:
        return text
    return text.replace(_MARK, _MARK + "1").replace("\0", _MARK + "0")


def unescape(text: str) -> str:
    """The text that was escaped."""
    if _MARK not in text:
        return text
    return text.replace(_MARK + "0", "\0").replace(_MARK + "1", _MARK)


def escape_if_any(text: str | None) -> str | None:
    """The escaped text, or None where there is none."""
    return None if text is None else escape(text)


def unescape_if_any(text: str | None) -> str | None:
    """The text that was escaped, or None where there is none."""
    return None if text is None else unescape(text)


def escape_all(texts: Iterable[str]) -> list[str]:
    """Each text escaped."""
    return [escape(text) for text in texts]


def json_text(value: Any) -> str:
    """The text of a `json` column."""
    return orjson.dumps(value).decode()


def searchable(json: str) -> str:
    r"""JSON for a `jsonb` column: a NUL becomes the visible text `\u0000`."""
    if r"\u0000" not in json:
        return json
    return _ESCAPED_NUL.sub(r"\1\\\\u0000", json)
