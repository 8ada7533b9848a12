"""Hostile bodies, on every route: refused as a problem or taken, and never an error of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.hostile.description import HOLE, Operation, operations, with_holes
from tests.hostile.values import JSON_TEXTS, RAW_BODIES
from tests.hostile.verdict import faults

if TYPE_CHECKING:
    from tests.hostile.target import Target

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.unmeasured]

NONE: frozenset[int] = frozenset()
JSON = b"application/json"
SENDING = [one for one in operations() if one.method != "GET" and one.is_guarded]


@pytest.mark.parametrize("operation", SENDING, ids=lambda one: one.ident)
async def test_no_whole_body_breaks_a_route(target: Target, operation: Operation) -> None:
    path = operation.path(target.segments(operation))
    found = []
    for name, body in RAW_BODIES.items():
        for content_type in {JSON, *(kind.encode() for kind in operation.media_types)}:
            answer = await target.ask(
                operation.method, path, body=body, headers={"Content-Type": content_type}
            )
            found += [(name, fault) for fault in faults(answer, operation, also=NONE)]
    assert found == []


@pytest.mark.parametrize(
    "operation", [one for one in SENDING if one.body is not None], ids=lambda one: one.ident
)
async def test_no_value_in_a_body_breaks_a_route(target: Target, operation: Operation) -> None:
    assert operation.body is not None
    path = operation.path(target.segments(operation))
    found = []
    for pointer, holed in with_holes(operation.body):
        for name, text in JSON_TEXTS.items():
            body = holed.replace(f'"{HOLE}"', text).encode()
            answer = await target.ask(
                operation.method, path, body=body, headers={"Content-Type": JSON}
            )
            found += [(pointer, name, fault) for fault in faults(answer, operation, also=NONE)]
    assert found == []


async def test_the_service_is_well_afterwards(target: Target) -> None:
    assert await target.is_well()
