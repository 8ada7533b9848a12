"""Arguments of tool calls: read strictly, with one canonical form (turn.md 3.3).

The canonical bytes are RFC 8785. The same bytes are matched, shown, signed and executed, so this is
the only place that makes them; two calls are equal when theirs are. Text without a canonical form
(duplicate keys, numbers that double precision cannot hold, lone surrogates) is refused here, before
a gate, a person or a tool sees it, and so is NUL. `strict_loads` reads any JSON text by the same
rules, but takes NUL.

The text is parsed once, by the C parser. Its hooks leave a `_Flaw` in place of what they refuse,
and only a text that has one is walked again, to say where.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from json import JSONDecodeError, JSONDecoder
from typing import TYPE_CHECKING, Final

import orjson
import rfc8785

from app.engine.json.pointer import pointer_token
from app.engine.json.text import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

MAX_ARGUMENT_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 64
MAX_SAFE_INTEGER: Final = 2**53 - 1
_LARGEST_DOUBLE: Final = sys.float_info.max
_MAX_DIGITS: Final = 1000
_MAX_POINTER_CHARS: Final = 200

_TOO_BIG: Final = "a number beyond 2^53-1 in magnitude; send it as a string"
_NO_BRACKET: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[^"\[\]{}]+', re.DOTALL)
_NUL_ESCAPE: Final = "\\u0000"
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NESTING: Final = {"[": 1, "{": 1, "]": -1, "}": -1}


class JsonDefect(ValueError):
    """The text is no JSON that can be kept exactly. The message is a sentence naming the place."""

    def __init__(self, defect: str, *, place: str = "", pointer: str = "") -> None:
        """`place` is for what has no pointer because the text has no tree."""
        # A pointer may hold a key of any length, with surrogates that no encoder takes.
        shown = pointer.encode(errors="backslashreplace").decode()[:_MAX_POINTER_CHARS]
        self.pointer = shown
        self.defect = f"at {place or shown or 'the top level'}: {defect}"
        super().__init__(self.defect)


@dataclass(frozen=True, slots=True)
class Arguments:
    """Accepted arguments; equal when their canonical bytes are. `value` is what these parse to."""

    value: dict[str, JsonValue] = field(compare=False)
    canonical: bytes
    sha256: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Malformed:
    """Refused argument text: a sentence for the model, and the JSON pointer if there is one."""

    defect: str
    pointer: str


def parse_arguments(text: str | bytes) -> Arguments | Malformed:
    """The arguments a model sent as `text`, or what is wrong with them and where."""
    try:
        value = _read_object(text)
    except JsonDefect as error:
        return Malformed(error.defect, error.pointer)
    canonical = canonical_bytes(value)
    return Arguments(value, canonical, sha256_hex(canonical))


def canonical_bytes(value: JsonValue) -> bytes:
    """The RFC 8785 form of a JSON value. Raises ValueError for what has none."""
    if _is_plain(value):
        # A lone surrogate is found by the encoder; that it is one is for the other to say.
        with suppress(orjson.JSONEncodeError):
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return rfc8785.dumps(value)


def sha256_hex(data: bytes) -> str:
    """The SHA-256 digest in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def strict_loads(
    data: str | bytes, *, max_depth: int = MAX_DEPTH, big_numbers: bool = False
) -> JsonValue:
    """The value of a JSON text, the outermost container being depth 1. Raises JsonDefect.

    Unless `big_numbers` are wanted, the value is what its canonical form parses to: magnitudes
    end at 2^53-1 and 1.0 is read as 1.
    """
    text = _text_of(data)
    _check_depth(text, max_depth)
    hooks = _Hooks(big_numbers=big_numbers)
    value = _parse(text, hooks)
    if (hooks.found_flaw or _SURROGATE_ESCAPE.search(text)) and (defect := _first_defect(value)):
        raise defect
    return value


def _is_plain(value: JsonValue) -> bool:
    """Whether orjson writes the value just as RFC 8785 has it, and many times faster.

    Its fractions may look otherwise, and it sorts keys by UTF-8, which differs beyond ASCII.
    """
    match value:
        case str() | bool() | None:
            return True
        case int():
            return -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER
        case dict():
            return all(key.isascii() and _is_plain(item) for key, item in value.items())
        case list():
            return all(map(_is_plain, value))
        case _:
            return False


def _read_object(text: str | bytes) -> dict[str, JsonValue]:
    size = len(text) if isinstance(text, bytes) or text.isascii() else len(_utf8(text))
    if size > MAX_ARGUMENT_BYTES:
        raise JsonDefect(f"{size} bytes, where at most {MAX_ARGUMENT_BYTES} are accepted")
    value = strict_loads(text)
    if not isinstance(value, dict):
        raise JsonDefect(f"expected a JSON object, found {kind_of(value)}")
    for pointer in _places_of_nul(value) if _NUL_ESCAPE in _text_of(text) else ():
        raise JsonDefect("a NUL character, which no tool is given", pointer=pointer)
    return value


def _places_of_nul(value: JsonValue, pointer: str = "") -> Iterator[str]:
    match value:
        case str() if "\0" in value:
            yield pointer
        case dict():
            for key, item in value.items():
                inner = f"{pointer}/{pointer_token(key)}"
                if "\0" in key:
                    yield inner
                yield from _places_of_nul(item, inner)
        case list():
            for index, item in enumerate(value):
                yield from _places_of_nul(item, f"{pointer}/{index}")
        case _:
            pass


def _text_of(data: str | bytes) -> str:
    if isinstance(data, str):
        if not data.isascii():
            _utf8(data)
        return data
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise JsonDefect("not UTF-8", place=f"byte {error.start}") from error


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise JsonDefect("a lone surrogate", place=f"character {error.start}") from error


def _check_depth(text: str, max_depth: int) -> None:
    """Refuse deep nesting before the parser recurses into it.

    Fewer brackets than the limit cannot nest too deep, so ordinary text costs two counts.
    """
    if text.count("[") + text.count("{") <= max_depth:
        return
    brackets = _NO_BRACKET.sub("", text)
    if max(accumulate(map(_NESTING.__getitem__, brackets)), default=0) > max_depth:
        raise JsonDefect(f"nested deeper than {max_depth} levels")


def _parse(text: str, hooks: _Hooks) -> JsonValue:
    decoder = JSONDecoder(
        object_pairs_hook=hooks.members,
        parse_int=hooks.integer,
        parse_float=hooks.fraction,
        parse_constant=hooks.constant,
    )
    try:
        value: JsonValue = decoder.decode(text)
    except JSONDecodeError as error:
        raise JsonDefect(f"invalid JSON, {error.msg}", place=f"character {error.pos}") from error
    return value


@dataclass(frozen=True, slots=True)
class _Flaw:
    """Stands in the parsed tree for what was refused there; `key` is that of the member meant."""

    defect: str
    key: str | None = None


class _Hooks:
    """What the parser asks while it reads one text."""

    __slots__ = ("_big_numbers", "found_flaw")

    def __init__(self, *, big_numbers: bool) -> None:
        self._big_numbers = big_numbers
        self.found_flaw = False

    def integer(self, digits: str) -> int | _Flaw:
        if len(digits) > _MAX_DIGITS:
            # Beyond some length Python itself refuses, and reading takes quadratic time.
            return self._flaw(f"a number of more than {_MAX_DIGITS} digits")
        number = int(digits)
        if abs(number) > (_LARGEST_DOUBLE if self._big_numbers else MAX_SAFE_INTEGER):
            return self._flaw(_TOO_BIG)
        return number

    def fraction(self, digits: str) -> float | _Flaw:
        number = float(digits)
        if self._big_numbers:
            return self._flaw(_TOO_BIG) if number in _INFINITIES else number
        if abs(number) > MAX_SAFE_INTEGER:
            return self._flaw(_TOO_BIG)
        return int(number) if number.is_integer() else number

    def constant(self, name: str) -> _Flaw:
        return self._flaw(f"{name}, which is not a JSON number")

    def members(self, pairs: list[tuple[str, object]]) -> dict[str, object] | _Flaw:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        occurrences = Counter(key for key, _ in pairs)
        repeated = next(key for key, count in occurrences.items() if count > 1)
        return self._flaw("a key that occurs twice", key=repeated)

    def _flaw(self, defect: str, *, key: str | None = None) -> _Flaw:
        self.found_flaw = True
        return _Flaw(defect, key)


_INFINITIES: Final = (float("inf"), float("-inf"))


def _first_defect(value: object, pointer: str = "") -> JsonDefect | None:
    """The first flaw or lone surrogate in document order. The depth is bounded by now."""
    match value:
        case _Flaw(defect=defect, key=None):
            return JsonDefect(defect, pointer=pointer)
        case _Flaw(defect=defect, key=str() as key):
            return JsonDefect(defect, pointer=f"{pointer}/{pointer_token(key)}")
        case str() if _has_surrogate(value):
            return JsonDefect("a lone surrogate", pointer=pointer)
        case list():
            found = (_first_defect(item, f"{pointer}/{at}") for at, item in enumerate(value))
            return next(filter(None, found), None)
        case dict():
            found = (_defect_of_member(pointer, key, item) for key, item in value.items())
            return next(filter(None, found), None)
        case _:
            return None


def _defect_of_member(pointer: str, key: str, item: object) -> JsonDefect | None:
    inner = f"{pointer}/{pointer_token(key)}"
    if _has_surrogate(key):
        return JsonDefect("a key with a lone surrogate", pointer=inner)
    return _first_defect(item, inner)


def _has_surrogate(text: str) -> bool:
    return _SURROGATE.search(text) is not None
