"""Constraints made of a call: it meets them, others may, and nothing opens what was held (F121)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.policy.constraints import Constraint, all_met
from app.policy.suggestions import LINE_LENGTH, suggested

if TYPE_CHECKING:
    from pydantic import JsonValue

ORDERS = "https://api.example/v1/orders"
BELOW = Constraint("/url", "url_prefix", ORDERS)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from([ORDERS, "HTTP://a.b", "http://a.b/%", "{", "a\nb"])
)
ARGS = st.dictionaries(
    st.text(max_size=4),
    st.recursive(LEAVES, lambda each: st.lists(each) | st.dictionaries(st.text(max_size=4), each)),
    max_size=4,
)


@dataclass(frozen=True)
class Case:
    id: str
    args: dict[str, Any]
    expected: list[Constraint]


CASES = [
    Case("an address", {"url": ORDERS}, [BELOW]),
    Case(
        "an address with a query stands for itself",
        {"url": f"{ORDERS}?chat_id=7", "amount": 40},
        [
            Constraint("/amount", "range", [0, 40]),
            Constraint("/url", "equals", f"{ORDERS}?chat_id=7"),
        ],
    ),
    Case("alone it is nothing wider", {"url": f"{ORDERS}?page=2"}, []),
    Case(
        "a number, and who gets it",
        {"to": "ann", "amount": 40},
        [Constraint("/amount", "range", [0, 40]), Constraint("/to", "equals", "ann")],
    ),
    Case("a number below zero", {"by": -2.5}, [Constraint("/by", "range", [-2.5, 0])]),
    Case(
        "numbers that name something",
        {"amount": 1, "orderId": 7, "order_id": 7, "to": 7, "userid": 7, "total": 7},
        [
            Constraint("/amount", "range", [0, 1]),
            Constraint("/orderId", "equals", 7),
            Constraint("/order_id", "equals", 7),
            Constraint("/to", "equals", 7),
            Constraint("/total", "range", [0, 7]),
            Constraint("/userid", "equals", 7),
        ],
    ),
    Case(
        "one that only looks so is held",
        {"amount": 1, "paid": 7},
        [Constraint("/amount", "range", [0, 1]), Constraint("/paid", "equals", 7)],
    ),
    Case(
        "members of objects, arrays as they are",
        {"a/b": {"~": 3}, "to": ["ann", "bea"], "urgent": True, "why": None},
        [
            Constraint("/a~1b/~0", "range", [0, 3]),
            Constraint("/to", "equals", ["ann", "bea"]),
            Constraint("/urgent", "equals", True),
            Constraint("/why", "equals", None),
        ],
    ),
    Case("a document beside an address", {"url": ORDERS, "body": ' {"n":1}'}, [BELOW]),
    Case("lines beside an address", {"url": ORDERS, "body": "Dear Ann\nhello"}, [BELOW]),
    Case(
        "whoever gets it is no document, however it is written",
        {"url": ORDERS, "to": "[ann]", "channel": "#ann\n", "sendTo": 201 * "x"},
        [
            Constraint("/channel", "equals", "#ann\n"),
            Constraint("/sendTo", "equals", 201 * "x"),
            Constraint("/to", "equals", "[ann]"),
            BELOW,
        ],
    ),
    Case(
        "an object without members stays without",
        {"url": ORDERS, "headers": {}},
        [Constraint("/headers", "equals", {}), BELOW],
    ),
    Case("a long text beside an address", {"url": ORDERS, "body": 201 * "x"}, [BELOW]),
    Case(
        "a short one is held",
        {"url": ORDERS, "to": LINE_LENGTH * "x"},
        [Constraint("/to", "equals", LINE_LENGTH * "x"), BELOW],
    ),
    Case(
        "a document without an address is held",
        {"n": 1, "to": "ann\n"},
        [Constraint("/n", "range", [0, 1]), Constraint("/to", "equals", "ann\n")],
    ),
    Case("nothing to widen", {"to": "ann", "subject": "Hello"}, []),
    Case("nothing at all", {}, []),
    Case(
        "as many parts as are read",
        {"url": ORDERS, **{f"body{at}": "{}" for at in range(63)}},
        [BELOW],
    ),
    Case(
        "a text of one line beside an address",
        {"url": ORDERS, "note": 200 * "x"},
        [Constraint("/note", "equals", 200 * "x"), BELOW],
    ),
    Case(
        "more parts than anybody reads",
        {"url": ORDERS, **{f"body{at}": "{}" for at in range(64)}},
        [],
    ),
    Case("an address that no prefix holds", {"url": ORDERS, "or": "https://a@b.example/"}, []),
    Case("one in capitals", {"url": "HTTPS://API.example/"}, []),
    Case("a query that no address may have", {"url": f"{ORDERS}?<>"}, []),
    Case("a name that no pointer holds", {"n": 1, 600 * "n": 1}, []),
    Case("a number that readers do not agree on", {"n": 2**53}, []),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_f121_what_is_suggested(case: Case) -> None:
    assert suggested(case.args) == tuple(case.expected)


@given(ARGS)
def test_what_is_suggested_reaches_to_the_call_and_is_wider(args: dict[str, JsonValue]) -> None:
    found = suggested(args)
    assert all_met(found, args)
    assert not found or any(one.op != "equals" for one in found)


@given(ARGS, ARGS)
def test_no_other_address_and_no_other_name_meets_it(
    args: dict[str, JsonValue], more: dict[str, JsonValue]
) -> None:
    found = suggested({**more, **args, "url": ORDERS, "to": "ann"})
    for changed in ({"url": "https://evil.example/v1/orders"}, {"to": "eve"}):
        assert not found or not all_met(found, {**more, **args, "url": ORDERS, **changed})
