"""Pages: a bound that is never clamped, and cursors that only the service reads (service.md 1)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from fastapi import Query
from pydantic import BeforeValidator, Field

from app.log.queries import Page
from app.service.refusals import FieldFault, RequestInvalid
from app.trust import base64url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_LIMIT: Final = 200
_VERSION: Final = "1:"
_T = TypeVar("_T")


def _digits(text: object) -> object:
    # pydantic would also read "1_0", "+1" and " 1 " as numbers.
    if isinstance(text, str) and not (text.isascii() and text.isdecimal()):
        raise ValueError("expected decimal digits")
    return text


Digits = BeforeValidator(_digits)
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT), Digits, Query(description="Items of a page")]
TextFilter = Annotated[str | None, Query(max_length=255, pattern=r"^[^\x00]+$")]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before")]


def page_of(
    limit: int, cursor: str | None, *, is_sound: Callable[[str], bool] = str.isprintable
) -> Page:
    """The page to read: one item more than is shown, which tells whether there are others.

    Raises RequestInvalid for a cursor that is none, or whose key is not sound.
    """
    return Page(limit + 1, None if cursor is None else _read_cursor(cursor, is_sound=is_sound))


def cut_page(
    items: Sequence[_T], limit: int, key: Callable[[_T], str]
) -> tuple[list[_T], str | None]:
    """The items to show, and the cursor to the rest."""
    shown = list(items[:limit])
    return shown, _write_cursor(key(shown[-1])) if len(items) > limit else None


def _write_cursor(key: str) -> str:
    """The opaque text of a key."""
    return base64url.encode((_VERSION + key).encode())


def _read_cursor(cursor: str, *, is_sound: Callable[[str], bool]) -> str:
    """The key in a cursor. Raises RequestInvalid for text that was never one."""
    try:
        text = (base64url.decode(cursor) or b"").decode()
    except ValueError:
        text = ""
    key = text.removeprefix(_VERSION)
    if key in (text, "") or not is_sound(key):
        fault = FieldFault("/query/cursor", "expected the next_cursor of a page of this list")
        raise RequestInvalid("the cursor is none of this list", faults=(fault,))
    return key


def time_key(at: datetime, name: str) -> str:
    """The key of what has a name and no id that rises with time."""
    return f"{at.isoformat()}/{name}"


def is_time_key(key: str) -> bool:
    """Whether a `time_key` says so."""
    time, _, name = key.partition("/")
    try:
        return datetime.fromisoformat(time).tzinfo is not None and name != ""
    except ValueError:
        return False


def read_seq(cursor: str | None) -> int:
    """The seq in the cursor of a list that ascends by seq. Raises RequestInvalid."""
    return 0 if cursor is None else int(_read_cursor(cursor, is_sound=_is_seq))


def _is_seq(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) <= 15
