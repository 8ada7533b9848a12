from __future__ import annotations

from typing import Any

import pytest

from app.api.frames import CloseCode
from app.api.stream.handshake import Header, authorization, is_foreign, refused_query, subprotocol

ALLOWED = frozenset({"https://app.example"})


def upgrade(*headers: tuple[str, str], query: str = "", offers: tuple[str, ...] = ()) -> Any:
    """The ASGI scope of an upgrade request."""
    return {
        "headers": [(name.encode(), value.encode()) for name, value in headers],
        "query_string": query.encode(),
        "subprotocols": list(offers),
    }


def test_a_program_without_an_origin_is_not_foreign() -> None:
    assert not is_foreign(upgrade(), ALLOWED)


def test_a_page_of_an_allowed_origin_is_not_foreign() -> None:
    assert not is_foreign(upgrade(("origin", "https://app.example")), ALLOWED)


@pytest.mark.parametrize(
    "origins",
    [["https://evil.example"], ["null"], [""], ["https://app.example", "https://evil.example"]],
    ids=str,
)
def test_any_other_page_is_foreign(origins: list[str]) -> None:
    assert is_foreign(upgrade(*(("origin", origin) for origin in origins)), ALLOWED)


def test_the_bearer_token_of_the_header_is_found() -> None:
    assert authorization(upgrade(("authorization", "bearer  abc "))) == Header("abc")


def test_without_the_header_there_is_none() -> None:
    assert authorization(upgrade(("cookie", "token=abc"))) is None


def test_another_scheme_or_two_headers_hold_no_token() -> None:
    assert authorization(upgrade(("authorization", "Basic abc"))) == Header(None)
    twice = upgrade(("authorization", "Bearer a"), ("authorization", "Bearer b"))
    assert authorization(twice) == Header(None)


@pytest.mark.parametrize(
    "query",
    ["token=abc", "access_token=abc", "Authorization=x", "q=eyJhbGciOiJFUzI1NiJ9.e30.s", "eyJh"],
)
def test_a_token_in_the_url_is_refused_with_4401(query: str) -> None:
    close = refused_query(upgrade(query=query))
    assert close is not None
    assert close.code is CloseCode.AUTH


def test_any_other_parameter_is_refused_with_4400() -> None:
    close = refused_query(upgrade(query="after=5"))
    assert close is not None
    assert (close.code, close.error) == (CloseCode.PROTOCOL, "request.invalid")
    assert refused_query(upgrade()) is None


def test_our_subprotocol_is_spoken_where_it_is_offered() -> None:
    assert subprotocol(upgrade(offers=("other", "turngate.v1"))) == "turngate.v1"
    assert subprotocol(upgrade(offers=("other",))) is None
    assert subprotocol(upgrade()) is None
