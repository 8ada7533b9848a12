"""Hostile path segments, query values and headers, on every route that takes one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.hostile.description import Operation, example, operations
from tests.hostile.values import HEADERS, PARAMETERS
from tests.hostile.verdict import ASTRAY, faults

if TYPE_CHECKING:
    from tests.hostile.target import Target

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.unmeasured]

GUARDED = [one for one in operations() if one.is_guarded]
WITH_SEGMENTS = [one for one in GUARDED if one.segments]
WITH_QUERIES = [one for one in GUARDED if one.queries]
NONE: frozenset[int] = frozenset()


@pytest.mark.parametrize("operation", WITH_SEGMENTS, ids=lambda one: one.ident)
async def test_no_path_segment_breaks_a_route(target: Target, operation: Operation) -> None:
    found = []
    for segment in operation.segments:
        for name, value in PARAMETERS.items():
            path = operation.path({segment: value})
            answer = await target.ask(operation.method, path, **_sound(operation))
            found += [(segment, name, fault) for fault in faults(answer, operation, also=ASTRAY)]
    assert found == []


@pytest.mark.parametrize("operation", WITH_QUERIES, ids=lambda one: one.ident)
async def test_no_query_value_breaks_a_route(target: Target, operation: Operation) -> None:
    found = []
    for query in operation.queries:
        for name, value in PARAMETERS.items():
            path = operation.path(target.segments(operation), query={query: value})
            answer = await target.ask(operation.method, path)
            found += [(query, name, fault) for fault in faults(answer, operation, also=NONE)]
    assert found == []


@pytest.mark.parametrize("operation", GUARDED, ids=lambda one: one.ident)
async def test_no_header_breaks_a_route(target: Target, operation: Operation) -> None:
    found = []
    path = operation.path(target.segments(operation))
    for name, (header, value) in HEADERS.items():
        sound = _sound(operation)
        sound["headers"] = sound["headers"] | {header: value}
        answer = await target.ask(operation.method, path, **sound)
        found += [(name, fault) for fault in faults(answer, operation, also=NONE)]
    assert found == []


@pytest.mark.parametrize("operation", GUARDED, ids=lambda one: one.ident)
async def test_no_route_answers_without_a_token(target: Target, operation: Operation) -> None:
    path = operation.path(target.segments(operation))
    for token in (b"", b"Bearer", b"Bearer ", b"Basic bWFsbG9yeTo=", b"Bearer \xff", b"\0"):
        answer = await target.ask(operation.method, path, headers={"Authorization": token})
        assert (answer.status_code, answer.json()["code"]) == (401, "auth.token")


async def test_the_service_is_well_afterwards(target: Target) -> None:
    assert await target.is_well()


def _sound(operation: Operation) -> dict[str, Any]:
    """The body that the operation takes, with its type."""
    if operation.body is None:
        return {"body": b"", "headers": {}}
    body = json.dumps(example(operation.body)).encode()
    return {"body": body, "headers": {"Content-Type": b"application/json"}}
