"""Hostile bodies: read strictly, refused with a pointer, never a trace (service.md 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support.api.world import pointers, problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass(frozen=True)
class Case:
    id: str
    body: bytes
    pointers: tuple[str, ...]


RUN = b'{"agent":"helper","input":"hi"'
DEEP = RUN + b',"metadata":{"a":' + b"[" * 62 + b"]" * 62 + b"}}"
TOO_DEEP = RUN + b',"metadata":{"a":' + b"[" * 63 + b"]" * 63 + b"}}"

REFUSED = [
    Case("blank", b"", ("",)),
    Case("only spaces", b" \r\n\t", ("",)),
    Case("no JSON", b"{", ("",)),
    Case("not UTF-8", b'{"agent":"\xff"}', ("",)),
    Case("a byte order mark", b"\xef\xbb\xbf{}", ("",)),
    Case("two documents", b"{}{}", ("",)),
    Case("null", b"null", ("",)),
    Case("a list", b"[]", ("",)),
    Case("a text", b'"run"', ("",)),
    Case("a duplicate key", b'{"agent":"a","agent":"b","input":"x"}', ("/agent",)),
    Case("a duplicate key inside", RUN + b',"metadata":{"k":1,"k":2}}', ("/metadata/k",)),
    Case("NaN", RUN + b',"metadata":{"k":NaN}}', ("/metadata/k",)),
    Case("Infinity", RUN + b',"max_steps":-Infinity}', ("/max_steps",)),
    Case("a number beyond 2^53", RUN + b',"caller_memory":9007199254740993}', ("/caller_memory",)),
    Case("a lone surrogate", b'{"agent":"helper","input":"\\ud800"}', ("/input",)),
    Case("nesting over 64", TOO_DEEP, ("",)),
    Case("nesting far over 64", b"[" * 100_000, ("",)),
    Case("an unknown member", RUN + b',"surprise":1}', ("/surprise",)),
    Case("a missing member", b'{"input":"x"}', ("/agent",)),
    Case("a number for a text", b'{"agent":7,"input":"x"}', ("/agent",)),
    Case("a text for a number", RUN + b',"max_steps":"3"}', ("/max_steps",)),
    Case("a truth for a number", RUN + b',"max_steps":true}', ("/max_steps",)),
    Case("no steps", RUN + b',"max_steps":0}', ("/max_steps",)),
    Case("too many steps", RUN + b',"max_steps":1001}', ("/max_steps",)),
    Case("another choice", RUN + b',"on_busy":"wait"}', ("/on_busy",)),
    Case("a name with U+0000", b'{"agent":"a\\u0000","input":"x"}', ("/agent",)),
    Case("metadata that is none", RUN + b',"metadata":[]}', ("/metadata",)),
    Case(
        "metadata over 16 KiB",
        RUN + b',"metadata":{"k":"' + b"x" * 16_384 + b'"}}',
        ("/metadata",),
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
async def test_a_body_that_does_not_hold_is_refused_at_its_place(
    world: ApiWorld, case: Case
) -> None:
    answer = await world.person().post("/v1/runs", case.body)
    found = problem(answer, 422, "request.invalid")
    assert tuple(pointers(found)) == case.pointers


async def test_a_union_is_refused_at_its_place_in_the_body(world: ApiWorld) -> None:
    body = {"agent": "helper", "input": [{"type": "text", "text": 1}, {"type": "image"}]}
    found = problem(await world.person().post("/v1/runs", body), 422, "request.invalid")
    assert {"/input/0/text", "/input/1/type"} <= set(pointers(found))


async def test_nesting_of_64_is_taken(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    assert (await alice.post("/v1/runs", DEEP)).status_code == 201


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"],
)
async def test_a_body_of_another_media_type_is_refused(world: ApiWorld, content_type: str) -> None:
    answer = await world.person().ask(
        "POST", "/v1/runs", b'{"agent":"a","input":"x"}', Content_Type=content_type
    )
    problem(answer, 415, "body.media_type")


async def test_json_in_utf8_may_say_so(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    answer = await alice.ask(
        "POST", "/v1/runs", RUN + b"}", Content_Type="Application/JSON; charset=UTF-8"
    )
    assert answer.status_code == 201


async def test_a_body_over_one_mebibyte_is_refused_by_its_length(world: ApiWorld) -> None:
    answer = await world.person().post("/v1/runs", b" " * (1024 * 1024 + 1))
    problem(answer, 413, "body.too_large")


async def test_a_body_that_hides_its_length_is_read_no_further_than_its_bound(
    world: ApiWorld,
) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 64 * 1024
            yield b" " * 64 * 1024

    headers = {
        "Authorization": f"Bearer {world.person().token}",
        "Content-Type": "application/json",
    }
    answer = await world.http.post("/v1/runs", content=endless(), headers=headers)
    problem(answer, 413, "body.too_large")
    assert sent <= 1024 * 1024 + 2 * 64 * 1024


async def test_a_body_of_exactly_one_mebibyte_is_read(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    fill = 1024 * 1024 - len(RUN) - 1
    answer = await alice.post("/v1/runs", RUN + b" " * fill + b"}")
    assert answer.status_code == 201


@pytest.mark.parametrize("body", [b"", b"  ", b"{}", b" { } "])
async def test_a_route_without_a_body_takes_an_empty_one(world: ApiWorld, body: bytes) -> None:
    alice = world.person()
    await alice.agent()
    run = await alice.run()
    assert (await alice.post(f"/v1/runs/{run['id']}/cancel", body)).status_code == 202


@pytest.mark.parametrize("body", [b"[]", b"null", b'{"reason":"x"}'])
async def test_a_route_without_a_body_takes_no_other(world: ApiWorld, body: bytes) -> None:
    problem(await world.person().post("/v1/runs/run_1/cancel", body), 422, "request.invalid")


async def test_nobody_unknown_is_told_what_is_wrong_with_a_body(world: ApiWorld) -> None:
    answer = await world.http.post("/v1/runs", content=b"{", headers={"Content-Type": "x"})
    told = problem(answer, 401, "auth.token")
    assert told["detail"] == "no access token: the header Authorization: Bearer TOKEN is expected"
