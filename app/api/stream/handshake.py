"""What a socket's upgrade request says, before there is a socket: origin, token, subprotocol.

A browser sends its Origin whether the page wants it or not, so an origin that is not allowed is
refused before the upgrade. Programs send none. Cookies are not looked at, ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from app.api.frames import PROTOCOL, CloseCode
from app.api.stream.session import Close

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping, Set

    Scope = MutableMapping[str, Any]

_BEARER: Final = "bearer "
_TOKEN_WORDS: Final = ("token", "auth", "jwt", "bearer", "key")
# How the base64url of every JOSE header begins: `{"`.
_JOSE_START: Final = "eyJ"


@dataclass(frozen=True, slots=True)
class Header:
    """The Authorization header: a token, or None for one of another scheme or given twice."""

    token: str | None


def is_foreign(scope: Scope, allowed: Set[str]) -> bool:
    """Whether a browser asks for a page that is not allowed to."""
    return any(origin not in allowed for origin in _values(scope, b"origin"))


def authorization(scope: Scope) -> Header | None:
    """What the Authorization header says; None without one."""
    values = list(_values(scope, b"authorization"))
    if not values:
        return None
    if len(values) > 1 or values[0][: len(_BEARER)].lower() != _BEARER:
        return Header(None)
    return Header(values[0][len(_BEARER) :].strip())


def refused_query(scope: Scope) -> Close | None:
    """A stream takes no parameters, and a token in a URL ends in logs and histories."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if any(_is_token(name, value) for name, value in query):
        return Close(CloseCode.AUTH, "auth.token", "a token in the URL is refused")
    if query:
        detail = f"the query parameter {query[0][0]!r} is unknown"
        return Close(CloseCode.PROTOCOL, "request.invalid", detail)
    return None


def subprotocol(scope: Scope) -> str | None:
    """The subprotocol to speak: ours if the client offers it, else none."""
    return PROTOCOL if PROTOCOL in scope["subprotocols"] else None


def _values(scope: Scope, name: bytes) -> Iterable[str]:
    return (value.decode("latin-1") for found, value in scope["headers"] if found == name)


def _is_token(name: str, value: str) -> bool:
    if name.startswith(_JOSE_START) or value.startswith(_JOSE_START):
        return True
    return any(word in name.lower() for word in _TOKEN_WORDS)
