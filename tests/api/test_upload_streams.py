"""Uploads and downloads over real sockets: cut off, lied about, repeated, slow, altered."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio

from app.store.artifacts.leftovers import Leftovers
from tests.hostile.wire import Wire
from tests.support.api.world import EVERYDAY, problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.store.server.connections import Pool
    from tests.support.api.server import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

MIB = 1024 * 1024
LIMIT = 25 * MIB
LARGE = bytes(range(256)) * (16 * 1024)
FORM_HEAD = (
    b'--B\r\nContent-Disposition: form-data; name="file"; filename="a"\r\nContent-Type: a/b\r\n\r\n'
)


class Uploads:
    """Alice's uploads to one conversation."""

    def __init__(self, served: Served, talk: str) -> None:
        self.served = served
        self.path = f"/v1/artifacts?conversation_id={talk}"
        self.token = served.token(scopes=(*EVERYDAY, "artifacts:write"))

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"Content-Type": "a/b", **more.pop("headers", {})}
        async with self.served.http(self.token) as http:
            return await http.request(method, path, headers=headers, **more)

    async def send(self, content: Any, **headers: str) -> httpx.Response:
        return await self.ask("POST", self.path, content=content, headers=headers)

    def head(self, *lines: str, path: str = "", token: str = "") -> bytes:
        """The head of a request of one's own making."""
        told = (f"POST {path or self.path} HTTP/1.1", "Host: localhost", *lines)
        bearer = f"Authorization: Bearer {token or self.token}"
        return "\r\n".join([*told, bearer, "", ""]).encode()

    async def listed(self) -> list[str]:
        return [item["id"] for item in (await self.ask("GET", self.path)).json()["items"]]

    async def lying(self) -> int:
        """How many pieces lie there, once all is swept that may be."""
        await Leftovers(self.served.store.everyone).sweep()
        return await self.pieces()

    async def pieces(self) -> int:
        count: int = await self.served.store.everyone.pool.fetchval(
            "SELECT count(*) FROM artifact_pieces WHERE tenant = $1", self.served.tenant
        )
        return count

    async def noted(self, *, due: bool) -> int:
        count: int = await self.served.store.everyone.pool.fetchval(
            "SELECT count(*) FROM artifact_leftovers WHERE tenant = $1 AND (due_at <= now()) = $2",
            self.served.tenant,
            due,
        )
        return count

    async def until_noted(self, count: int, *, due: bool) -> None:
        """Returns once that many uploads are on their way, or were given up."""
        async with asyncio.timeout(20):
            while await self.noted(due=due) != count:
                continue


@pytest_asyncio.fixture(loop_scope="session")
async def uploads(streaming: Served) -> Uploads:
    return Uploads(streaming, (await streaming.talk()).id)


@pytest.mark.parametrize("way", ["declared", "chunked", "form"])
async def test_an_upload_whose_client_goes_away_leaves_nothing(uploads: Uploads, way: str) -> None:
    kind = "multipart/form-data; boundary=B" if way == "form" else "a/b"
    length = "Transfer-Encoding: chunked" if way == "chunked" else f"Content-Length: {3 * MIB}"
    begun = (FORM_HEAD if way == "form" else b"") + LARGE[: 2 * MIB]
    body = b"%x\r\n%s" % (3 * MIB, begun) if way == "chunked" else begun
    async with Wire.to(uploads.served.address) as wire:
        await wire.send(uploads.head(f"Content-Type: {kind}", length) + body)
        await uploads.until_noted(1, due=False)
    await uploads.until_noted(1, due=True)
    assert (await uploads.lying(), await uploads.listed()) == (0, [])


@dataclass(frozen=True)
class Refused:
    """An upload that no file makes right, and what is read of it before the answer."""

    name: str
    status: int
    query: str = "?conversation_id=conv_nowhere"
    begun: bytes = b""
    sub: str = "alice"
    scopes: tuple[str, ...] = EVERYDAY


FIELD = b'--B\r\nContent-Disposition: form-data; name="conversation_id"\r\n\r\nconv_nowhere\r\n'
REFUSED = [
    Refused("nowhere", 404),
    Refused("foreign", 404, query="", sub="mallory"),
    Refused("forbidden", 403, query="", scopes=("runs:read",)),
    Refused("unnamed", 422, query="?"),
    Refused("too_long_an_id", 422, query=f"?conversation_id={'c' * 256}"),
    Refused("form", 404, begun=FORM_HEAD),
    Refused("form_with_a_field", 404, query="?", begun=FIELD + FORM_HEAD),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
async def test_what_no_file_makes_right_is_refused_before_the_file_is_sent(
    uploads: Uploads, case: Refused
) -> None:
    """Whoever sends it all the same is heard out, and the connection goes on."""
    kind = "multipart/form-data; boundary=B" if case.begun else "a/b"
    head = uploads.head(
        *(f"Content-Type: {kind}", f"Content-Length: {3 * MIB}"),
        *([] if case.begun else ["Expect: 100-continue"]),
        path=f"/v1/artifacts{case.query}" if case.query else "",
        token=uploads.served.token(case.sub, scopes=case.scopes),
    )
    async with Wire.to(uploads.served.address) as wire:
        await wire.send(head + case.begun)
        assert (await wire.answer()).status == case.status
        await wire.send(LARGE[: 3 * MIB - len(case.begun)])
        await wire.send(b"GET /v1/nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await wire.answer()).status == 404
    assert (await uploads.noted(due=False), await uploads.noted(due=True)) == (0, 0)


async def test_a_stranger_is_refused_before_the_file_is_sent(uploads: Uploads) -> None:
    async with Wire.to(uploads.served.address) as wire:
        await wire.send(uploads.head(f"Content-Length: {3 * MIB}", token=uploads.token[:-9]))
        assert (await wire.answer()).status == 401


async def test_what_is_sent_after_the_declared_length_is_no_part_of_the_file(
    uploads: Uploads,
) -> None:
    async with Wire.to(uploads.served.address) as wire:
        head = uploads.head("Content-Type: a/b", "Content-Length: 5")
        await wire.send(head + b"helloGET /v1/nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer, other = [await wire.answer() for _ in range(2)]
    assert (answer.status, b'"size_bytes":5,' in answer.body, other.status) == (201, True, 404)


@pytest.mark.parametrize("is_form", [False, True])
async def test_c143_a_body_of_no_declared_length_is_refused_at_the_first_byte_too_many(
    uploads: Uploads, is_form: bool
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield FORM_HEAD if is_form else b""
        for _ in range(LIMIT // MIB):
            yield bytes(MIB)
        yield b"!" + bytes(200)

    kind = "multipart/form-data; boundary=B" if is_form else "a/b"
    answer = await uploads.send(endless(), **{"Content-Type": kind})
    problem(answer, 413, "artifact.too_large")
    assert (await uploads.lying(), await uploads.listed()) == (0, [])


async def test_c142_the_same_file_twice_at_once_is_one(uploads: Uploads) -> None:
    answers = await asyncio.gather(*(uploads.send(LARGE) for _ in range(2)))
    assert sorted(answer.status_code for answer in answers) == [200, 201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert await uploads.lying() == 4
    content = await uploads.ask("GET", f"/v1/artifacts/{answers[0].json()['id']}/content")
    assert content.content == LARGE


async def test_a_large_upload_is_repeated_under_its_key_and_kept_once(uploads: Uploads) -> None:
    first, again = [await uploads.send(LARGE, **{"Idempotency-Key": "k"}) for _ in range(2)]
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    other = await uploads.send(LARGE + b"!", **{"Idempotency-Key": "k"})
    problem(other, 409, "idempotency.mismatch")
    assert await uploads.lying() == 4


def is_busy(pool: Pool) -> bool:
    """Whether anybody has one of its connections."""
    return pool.get_idle_size() != pool.get_size()


async def test_uploads_that_stand_still_take_nothing_from_anybody(uploads: Uploads) -> None:
    """Twice as many as the process has connections to the database, each over two pieces in."""
    served = uploads.served
    many = 2 * served.store.pool.get_max_size()
    head = uploads.head("Content-Type: a/b", f"Content-Length: {3 * MIB}")
    async with AsyncExitStack() as open_wires:
        for _ in range(many):
            wire = await open_wires.enter_async_context(Wire.to(served.address))
            await wire.send(head + LARGE[: 2 * MIB + 1000])
        async with asyncio.timeout(20):
            while await uploads.pieces() != 2 * many or is_busy(served.store.pool):
                continue
        assert (await uploads.send(b"quick")).status_code == 201
        assert (await uploads.send(LARGE)).status_code == 201
    await uploads.until_noted(many, due=True)
    assert await uploads.lying() == 4


async def test_a_large_file_is_downloaded_whole_and_in_parts(uploads: Uploads) -> None:
    path = f"/v1/artifacts/{(await uploads.send(LARGE)).json()['id']}/content"
    whole = await uploads.ask("GET", path)
    assert (whole.content, whole.headers["content-length"]) == (LARGE, str(len(LARGE)))
    for first, last in ((0, 0), (MIB - 1, MIB), (5, 3 * MIB), (4 * MIB - 1, 4 * MIB - 1)):
        part = await uploads.ask("GET", path, headers={"Range": f"bytes={first}-{last}"})
        assert (part.status_code, part.content) == (206, LARGE[first : last + 1])
        assert part.headers["content-range"] == f"bytes {first}-{last}/{len(LARGE)}"
        assert part.headers["content-length"] == str(last + 1 - first)


@pytest.mark.parametrize("position", [0, 2])
async def test_c145_an_altered_piece_is_a_problem_or_breaks_the_download_off(
    uploads: Uploads, position: int
) -> None:
    ident = (await uploads.send(LARGE)).json()["id"]
    await uploads.served.store.everyone.pool.execute(
        "UPDATE artifact_pieces SET content = set_byte(content, 5, 255)"
        " WHERE key = $1 AND position = $2",
        ident,
        position,
    )
    path = f"/v1/artifacts/{ident}/content"
    if position == 0:
        problem(await uploads.ask("GET", path), 500, "internal")
        return
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete"):
        await uploads.ask("GET", path)


async def test_a_file_that_is_deleted_while_it_is_asked_for_is_not_there(uploads: Uploads) -> None:
    ident = (await uploads.send(LARGE)).json()["id"]
    assert (await uploads.ask("DELETE", f"/v1/artifacts/{ident}")).status_code == 204
    problem(await uploads.ask("GET", f"/v1/artifacts/{ident}/content"), 404, "not_found")
    assert await uploads.lying() == 0
