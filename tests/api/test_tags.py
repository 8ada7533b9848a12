"""What a client has already is not sent again (RFC 9110 13.1.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.api.tags import not_modified
from tests.support.api.world import problem

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld, Person

DIGEST = "a1" * 32


@pytest.mark.parametrize(
    "header",
    [
        *(f'"{DIGEST}"', f'W/"{DIGEST}"', f' "other" ,\tW/"{DIGEST}"', "*", " * "),
        f'"{DIGEST}", "an, other"',
    ],
)
def test_a_tag_that_names_what_is_there_is_answered_with_304_and_the_tag(header: str) -> None:
    answer = not_modified(header, DIGEST)
    assert answer is not None
    assert (answer.status_code, answer.body) == (304, b"")
    assert answer.raw_headers == [(b"etag", f'"{DIGEST}"'.encode())]


@pytest.mark.parametrize(
    "header",
    [
        *(None, "", DIGEST, f'w/"{DIGEST}"', f'"{DIGEST}', f"'{DIGEST}'", '"*"', '"other", *'),
        f'"{DIGEST.upper()}"',
    ],
)
def test_what_names_something_else_or_no_tag_at_all_is_passed_over(header: str | None) -> None:
    assert not_modified(header, DIGEST) is None


async def uploaded(alice: Person) -> str:
    """The id of an artifact."""
    talk = (await alice.post("/v1/conversations", {})).json()["id"]
    path = f"/v1/artifacts?conversation_id={talk}"
    ident: str = (await alice.post(path, b"0123", Content_Type="text/plain")).json()["id"]
    return ident


@pytest.mark.asyncio(loop_scope="session")
async def test_a_file_that_the_client_has_is_not_even_read(world: ApiWorld) -> None:
    """Of altered bytes, which no one is ever given, a reader would have a problem."""
    alice = world.person()
    ident = await uploaded(alice)
    path = f"/v1/artifacts/{ident}/content"
    tag = (await alice.get(path)).headers["etag"]
    await world.store.everyone.pool.execute(
        "UPDATE artifacts SET content = 'x' WHERE id = $1", ident
    )
    problem(await alice.get(path, If_None_Match='"other"'), 500, "internal")
    for asked in ({}, {"Range": "bytes=1-2"}, {"Range": "bytes=9-"}):
        answer = await alice.get(path, If_None_Match=f'"other", W/{tag}', **asked)
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == tag
        assert answer.headers.keys().isdisjoint({"content-length", "content-type"})


@pytest.mark.asyncio(loop_scope="session")
async def test_what_is_out_of_reach_is_missing_also_for_whoever_knows_its_tag(
    world: ApiWorld,
) -> None:
    path = f"/v1/artifacts/{await uploaded(world.person())}/content"
    problem(await world.person("mallory").get(path, If_None_Match="*"), 404, "not_found")


@pytest.mark.asyncio(loop_scope="session")
async def test_an_agent_that_has_not_changed_is_not_sent_again(world: ApiWorld) -> None:
    alice = world.person()
    name = await alice.agent()
    first = await alice.get(f"/v1/agents/{name}")
    tag = first.headers["etag"]
    same = await alice.get(f"/v1/agents/{name}", If_None_Match=tag)
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    await alice.put(f"/v1/agents/{name}", {"model": "script", "max_steps": 3})
    changed = await alice.get(f"/v1/agents/{name}", If_None_Match=tag)
    assert (changed.status_code, changed.json()["max_steps"]) == (200, 3)
