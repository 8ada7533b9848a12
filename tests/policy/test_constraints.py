"""A constraint is met by what it names and by nothing that merely looks like it (service.md 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.policy.constraints import Constraint, all_met

if TYPE_CHECKING:
    from pydantic import JsonValue

    from app.policy.constraints import ConstraintOp

ORDERS = "https://api.example.com/v1/orders"
LONGEST = f"{ORDERS}/".ljust(2048, "a")
ARGS: JsonValue = {
    "url": ORDERS,
    "amount": 40,
    "to": ["ann", {"team/ops": True, "a~b": None}],
    "": "nameless",
}


def met(op: ConstraintOp, value: JsonValue, found: JsonValue) -> bool:
    return Constraint("/it", op, value).is_met({"it": found})


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", ARGS),
        ("/", "nameless"),
        ("/amount", 40),
        ("/to/0", "ann"),
        ("/to/1/team~1ops", True),
        ("/to/1/a~0b", None),
    ],
)
def test_a_pointer_finds_one_value(pointer: str, value: JsonValue) -> None:
    assert Constraint(pointer, "equals", value).is_met(ARGS)


@pytest.mark.parametrize(
    "pointer",
    ["/absent", "/to/2", "/to/-", "/to/00", "/to/+1", "/to/\u0661", "/amount/0", "/url/0", "/to/x"],
)
def test_what_is_missing_meets_nothing_not_even_null(pointer: str) -> None:
    assert not Constraint(pointer, "equals", None).is_met(ARGS)


def test_a_pointer_may_have_512_characters() -> None:
    assert Constraint("/" + 511 * "a", "equals", 1).is_met({511 * "a": 1})


@pytest.mark.parametrize("pointer", ["amount", "/a~", "/a~2", "#/amount", "/" + 512 * "a"])
def test_what_is_no_pointer_is_refused_with_what_was_expected(pointer: str) -> None:
    with pytest.raises(ValueError, match="RFC 6901"):
        Constraint(pointer, "equals", 1)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (1, 1.0),
        ("a", "a"),
        (None, None),
        (True, True),
        ([1, {"a": [2.0]}], [1.0, {"a": [2]}]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
def test_equals_goes_by_json_value(wanted: JsonValue, found: JsonValue) -> None:
    assert met("equals", wanted, found)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (1, True),
        (0, False),
        (False, 0),
        (True, False),
        (1, "1"),
        (1, 2),
        (None, False),
        ("a", "A"),
        ([1], [True]),
        ([1], [1, 1]),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({}, []),
    ],
)
def test_equals_takes_no_other_type_and_no_more(wanted: JsonValue, found: JsonValue) -> None:
    assert not met("equals", wanted, found)


def test_one_of_is_met_by_each_of_its_values_alone() -> None:
    assert met("one_of", ["eur", 2, None], "eur")
    assert met("one_of", ["eur", 2, None], 2.0)
    assert met("one_of", ["eur", 2, None], None)
    assert not met("one_of", ["eur", 1, None], True)
    assert not met("one_of", ["eur"], ["eur"])
    assert not met("one_of", ["eur"], "EUR")


@pytest.mark.parametrize(
    ("op", "value", "found"),
    [
        ("one_of", 100 * ["eur"], "eur"),
        ("range", [1 - 2**53, 2**53 - 1], 1 - 2**53),
        ("range", [1 - 2**53, 2**53 - 1], 2**53 - 1),
        ("range", [7, 7], 7),
        ("url_prefix", LONGEST, LONGEST),
    ],
)
def test_a_bound_belongs_to_what_is_allowed(
    op: ConstraintOp, value: JsonValue, found: JsonValue
) -> None:
    assert met(op, value, found)


@pytest.mark.parametrize("value", [[], "eur", {"eur": 1}, None, 101 * [1]])
def test_one_of_expects_an_array(value: JsonValue) -> None:
    with pytest.raises(ValueError, match="one_of expects an array of 1 to 100 values"):
        Constraint("/it", "one_of", value)


@pytest.mark.parametrize("found", [0, 0.0, 50, 99.5, 100, 100.0, -0.0])
def test_a_range_includes_its_ends(found: JsonValue) -> None:
    assert met("range", [0, 100], found)


@pytest.mark.parametrize("found", [-1, 100.1, True, False, "50", None, [50], {"50": 50}])
def test_a_range_takes_numbers_within_it_alone(found: JsonValue) -> None:
    assert not met("range", [0, 100], found)


@pytest.mark.parametrize(
    "value",
    [
        [2, 1],
        [1],
        [1, 2, 3],
        [False, True],
        [0, True],
        ["0", "9"],
        [None, 9],
        {"0": 9},
        9,
        [0, float("inf")],
        [float("nan"), 1],
        [0, 2**53],
        [-(2**53), 0],
    ],
)
def test_a_range_expects_two_numbers_in_order(value: JsonValue) -> None:
    with pytest.raises(ValueError, match="two numbers, low <= high, both included"):
        Constraint("/it", "range", value)


@pytest.mark.parametrize(
    "url",
    [
        ORDERS,
        f"{ORDERS}/",
        f"{ORDERS}/7",
        f"{ORDERS}/7/lines.json",
        f"{ORDERS}?page=2&q=a%20b",
        f"{ORDERS}/..7",
        f"{ORDERS}/...",
    ],
)
def test_an_address_below_the_prefix_meets_it(url: str) -> None:
    assert met("url_prefix", ORDERS, url)
    assert met("url_prefix", f"{ORDERS}/", url)
    assert met("url_prefix", "https://api.example.com", url)


@pytest.mark.parametrize(
    "url",
    [
        # Another scheme, host, port or path.
        "http://api.example.com/v1/orders",
        "https://example.com/v1/orders",
        "https://api.example.com.evil.test/v1/orders",
        "https://api.example.comevil.test/v1/orders",
        "https://evil.test/https://api.example.com/v1/orders",
        "https://evil.test/?https://api.example.com/v1/orders",
        "https://evil.test#https://api.example.com/v1/orders",
        "https://api.example.com:443/v1/orders",
        "https://api.example.com:8443/v1/orders",
        "https://api.example.com/v1/orders2",
        "https://api.example.com/v1",
        "https://api.example.com/V1/orders",
        "https://api.example.com?/v1/orders",
        "https://api.example.com",
        # User information.
        "https://api.example.com@evil.test/v1/orders",
        "https://api.example.com:80@evil.test/v1/orders",
        "https://user@api.example.com/v1/orders",
        "https://evil.test\\@api.example.com/v1/orders",
        # Segments that lead out again.
        f"{ORDERS}/..",
        f"{ORDERS}/../admin",
        f"{ORDERS}/./7",
        f"{ORDERS}/..?x",
        f"{ORDERS}/%2e%2e/admin",
        f"{ORDERS}/..%2fadmin",
        f"{ORDERS}/..;/admin",
        f"{ORDERS}/..\\admin",
        "https://api.example.com/v1//orders",
        "https://api.example.com//v1/orders",
        "https://api.example.com/v1%2forders",
        "https://api.example.com\\v1/orders",
        # Another spelling of the host, and letters that look alike.
        "https://API.example.com/v1/orders",
        "HTTPS://api.example.com/v1/orders",
        "https://api.example.com./v1/orders",
        "https://api.ex\u0430mple.com/v1/orders",
        "https://api.example\u3002com/v1/orders",
        "https://xn--exmple-cua.com/v1/orders",
        "https://api%2eexample.com/v1/orders",
        # What parsers drop or trim.
        f" {ORDERS}",
        f"{ORDERS} ",
        f"{ORDERS}\n",
        "https://api.exam\tple.com/v1/orders",
        "https:/api.example.com/v1/orders",
        "https:///api.example.com/v1/orders",
        "//api.example.com/v1/orders",
        f"{ORDERS}#x",
        f"{ORDERS}?x\\y",
        ORDERS + "/" + 2048 * "a",
    ],
)
def test_an_address_that_only_looks_like_it_does_not(url: str) -> None:
    assert not met("url_prefix", ORDERS, url)


@pytest.mark.parametrize("found", [None, True, 1, [ORDERS], {"url": ORDERS}, ""])
def test_what_is_no_text_is_no_address(found: JsonValue) -> None:
    assert not met("url_prefix", ORDERS, found)


def test_a_port_counts_as_written() -> None:
    assert met("url_prefix", "http://127.0.0.1:8080/in", "http://127.0.0.1:8080/in/1")
    assert not met("url_prefix", "http://127.0.0.1:8080/in", "http://127.0.0.1:80801/in/1")
    assert not met("url_prefix", "http://127.0.0.1:8080/in", "http://127.0.0.1/in/1")


@pytest.mark.parametrize(
    "prefix",
    [
        None,
        7,
        "",
        "api.example.com/v1",
        "ftp://api.example.com",
        "https://",
        "https://user@api.example.com",
        "https://API.example.com",
        "https://xn--exmple-cua.com",
        "https://api.xn--exmple-cua.com",
        "https://b\u00fccher.example",
        "https://api.example.com.",
        "https://-api.example.com",
        "https://[::1]/v1",
        "https://api.example.com:0",
        "https://api.example.com/v1?x=1",
        "https://api.example.com/v1#x",
        "https://api.example.com/v1/../v2",
        "https://api.example.com/a%20b",
        "https://api.example.com//v1",
        f"{ORDERS}/" + 2048 * "a",
    ],
)
def test_a_prefix_expects_a_plain_address(prefix: JsonValue) -> None:
    with pytest.raises(ValueError, match="url_prefix expects http:// or https://"):
        Constraint("/it", "url_prefix", prefix)


def test_every_constraint_of_a_grant_has_to_be_met() -> None:
    both = (Constraint("/url", "url_prefix", ORDERS), Constraint("/amount", "range", [1, 50]))
    assert all_met((), ARGS)
    assert all_met(both, ARGS)
    assert not all_met(both, {"url": ORDERS, "amount": 51})
    assert not all_met(both, {"url": ORDERS})
    assert not all_met(both, {"amount": 40})
