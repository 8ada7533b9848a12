"""Parts of a download: what a Range header means (RFC 9110 14), and how it is answered."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from app.api.ranges import RangeUnsatisfiable, part_of
from tests.support.api.world import problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api.world import ApiWorld, Person

CONTENT = b"0123456789"
TAG = f'"{hashlib.sha256(CONTENT).hexdigest()}"'


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("bytes=0-4", 0, 4),
        ("bytes=5-", 5, 9),
        ("bytes=9-9", 9, 9),
        ("bytes=4-90", 4, 9),
        ("bytes=-3", 7, 9),
        ("bytes=-30", 0, 9),
        (" Bytes=0-0 ", 0, 0),
    ],
)
def test_one_range_names_its_first_and_its_last_byte(asked: str, first: int, last: int) -> None:
    assert part_of(10, asked) == range(first, last + 1)


@pytest.mark.parametrize(
    "asked",
    [
        *(None, "", "bytes", "bytes=", "bytes=-", "bytes=5-4", "bytes=12-10", "bytes=0-1,3-4"),
        *("items=0-4", "bytes 0-4", "bytes=a-b", "bytes=+1-2", "bytes=1-2-3", "bytes=٣-٤"),
        f"bytes={'9' * 5000}-",
    ],
)
def test_what_is_no_single_range_of_bytes_is_passed_over(asked: str | None) -> None:
    assert part_of(10, asked) is None


@pytest.mark.parametrize(
    ("size", "asked"),
    [(10, "bytes=10-"), (10, "bytes=10-12"), (10, "bytes=-0"), (0, "bytes=0-"), (0, "bytes=-1")],
)
def test_a_range_without_a_byte_of_the_file_is_refused(size: int, asked: str) -> None:
    with pytest.raises(RangeUnsatisfiable) as refused:
        part_of(size, asked)
    assert refused.value.members == {"size_bytes": size}


@pytest.fixture(params=["application", "bucketed"])
def world(request: pytest.FixtureRequest, tenant: str) -> Iterator[ApiWorld]:
    application: ApiWorld = request.getfixturevalue(request.param)
    yield replace(application, tenant=tenant)
    application.clock.restart()


async def uploaded(alice: Person) -> str:
    """The path of a file's bytes."""
    talk = (await alice.post("/v1/conversations", {})).json()["id"]
    path = f"/v1/artifacts?conversation_id={talk}"
    artifact = await alice.post(path, CONTENT, Content_Type="text/plain")
    return f"/v1/artifacts/{artifact.json()['id']}/content"


@pytest.mark.asyncio(loop_scope="session")
async def test_a_part_is_answered_with_its_place_and_the_rest_of_the_headers(
    world: ApiWorld,
) -> None:
    alice = world.person()
    path = await uploaded(alice)
    whole = await alice.get(path)
    part = await alice.get(path, Range="bytes=2-4")
    assert (whole.status_code, whole.content) == (200, CONTENT)
    assert (whole.headers["etag"], whole.headers["accept-ranges"]) == (TAG, "bytes")
    assert (part.status_code, part.content) == (206, b"234")
    assert part.headers["content-range"] == "bytes 2-4/10"
    own = {"content-range", "content-length", "x-request-id"}
    assert {name: part.headers[name] for name in part.headers.keys() - own} == {
        name: whole.headers[name] for name in whole.headers.keys() - own
    }


@pytest.mark.asyncio(loop_scope="session")
async def test_what_cannot_be_had_is_416_with_the_size(world: ApiWorld) -> None:
    alice = world.person()
    answer = await alice.get(await uploaded(alice), Range="bytes=10-")
    assert problem(answer, 416, "artifact.range")["size_bytes"] == 10
    assert answer.headers["content-range"] == "bytes */10"


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("tag", "status"), [(TAG, 206), ('"other"', 200), (f"W/{TAG}", 200), ("Sun, 29 Nov", 200)]
)
async def test_a_part_of_another_file_than_the_client_has_is_the_whole_file(
    world: ApiWorld, tag: str, status: int
) -> None:
    alice = world.person()
    path = await uploaded(alice)
    answer = await alice.get(path, Range="bytes=0-0", If_Range=tag)
    assert (answer.status_code, answer.content) == (status, b"0" if status == 206 else CONTENT)
    beyond = await alice.get(path, Range="bytes=10-", If_Range=tag)
    assert beyond.status_code == (416 if status == 206 else 200)
