"""Artifacts over HTTP: upload, read, download, list, delete, and what is refused (service.md 4).

All of it with the bytes in the database, and with the bytes in a bucket.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from app.settings import Settings
from tests.support.api.world import pointers, problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import httpx

    from tests.support.api.world import ApiWorld, Person

pytestmark = pytest.mark.asyncio(loop_scope="session")

LIMIT = 25 * 1024 * 1024
POLYGLOT = b"GIF89a/*<script>alert(1)</script>*/"


@pytest.fixture(params=["application", "bucketed"])
def world(request: pytest.FixtureRequest, tenant: str) -> Iterator[ApiWorld]:
    application: ApiWorld = request.getfixturevalue(request.param)
    yield replace(application, tenant=tenant)
    application.clock.restart()


async def conversation(person: Person, *participants: str) -> str:
    body = {"participants": list(participants)}
    ident: str = (await person.post("/v1/conversations", body)).json()["id"]
    return ident


async def upload(
    person: Person, conversation_id: str, content: bytes = b"text", *, query: str = "", **more: str
) -> httpx.Response:
    headers = {"Content_Type": "text/plain"} | more
    path = f"/v1/artifacts?conversation_id={conversation_id}{query}"
    return await person.post(path, content, **headers)


def form(*parts: tuple[str, bytes], end: bool = True) -> bytes:
    """A form with the boundary B; a part is its headers and its content."""
    written = [b"--B\r\n" + head.encode() + b"\r\n\r\n" + content for head, content in parts]
    return b"\r\n".join([*written, b"--B--\r\n" if end else b""])


def file_part(filename: str, content: bytes = b"hello", mime: str = "text/plain") -> Any:
    quoted = filename.replace('"', "%22")
    disposition = f'Content-Disposition: form-data; name="file"; filename="{quoted}"'
    return f"{disposition}\r\nContent-Type: {mime}", content


FORM = "multipart/form-data; boundary=B"


async def test_a_raw_body_becomes_an_artifact_and_is_read_back(world: ApiWorld) -> None:
    alice = world.person()
    talk = await conversation(alice)
    answer = await upload(alice, talk, b"a,b", query="&filename=a.csv", Content_Type="text/csv")
    artifact = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/artifacts/{artifact['id']}"
    assert artifact == {
        "id": artifact["id"],
        "conversation_id": talk,
        "mime": "text/csv",
        "size_bytes": 3,
        "sha256": hashlib.sha256(b"a,b").hexdigest(),
        "filename": "a.csv",
        "trust": "quarantined_content",
        "created_at": "2026-11-29T12:00:00.000Z",
    }
    path = f"/v1/artifacts/{artifact['id']}"
    assert (await alice.get(path)).json() == artifact
    content = await alice.get(f"{path}/content", Accept="image/png")
    assert (content.status_code, content.content) == (200, b"a,b")
    assert content.headers["content-type"] == "text/csv"
    assert content.headers["x-content-type-options"] == "nosniff"
    assert content.headers["content-disposition"] == (
        "attachment; filename=\"a.csv\"; filename*=UTF-8''a.csv"
    )
    assert "sandbox" in content.headers["content-security-policy"]


async def test_a_form_brings_its_file_s_name_and_type(world: ApiWorld) -> None:
    alice = world.person()
    talk = await conversation(alice)
    field = 'Content-Disposition: form-data; name="conversation_id"', talk.encode()
    body = form(field, file_part("note.md", b"# hi", "text/markdown"))
    answer = await alice.post("/v1/artifacts", body, Content_Type=FORM)
    assert answer.status_code == 201
    artifact = answer.json()
    assert (artifact["mime"], artifact["filename"]) == ("text/markdown", "note.md")
    assert (await alice.get(f"/v1/artifacts/{artifact['id']}/content")).content == b"# hi"


async def test_c142_known_bytes_answer_200_with_what_is_there(world: ApiWorld) -> None:
    alice = world.person()
    talk = await conversation(alice)
    first = await upload(alice, talk, query="&filename=a")
    again = await upload(alice, talk, query="&filename=b", Content_Type="text/html")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    elsewhere = await upload(alice, await conversation(alice))
    assert elsewhere.status_code == 201
    assert elsewhere.json()["id"] != first.json()["id"]


async def test_the_same_key_gets_the_first_answer_and_other_bytes_a_refusal(
    world: ApiWorld,
) -> None:
    alice = world.person()
    talk = await conversation(alice)
    first = await upload(alice, talk, b"one", Idempotency_Key="k")
    again = await upload(alice, talk, b"one", Idempotency_Key="k")
    other = await upload(alice, talk, b"two", Idempotency_Key="k")
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    problem(other, 409, "idempotency.mismatch")


async def test_c143_the_bound_is_25_mib_where_none_is_set() -> None:
    assert Settings.model_fields["artifact_max_bytes"].default == 26_214_400


async def test_c143_one_byte_over_the_bound_is_refused_and_nothing_is_kept(
    world: ApiWorld,
) -> None:
    alice = world.person()
    talk = await conversation(alice)
    whole = await upload(alice, talk, b"x" * LIMIT)
    assert (whole.status_code, whole.json()["size_bytes"]) == (201, LIMIT)
    problem(await upload(alice, talk, b"x" * (LIMIT + 1)), 413, "artifact.too_large")
    body = form(file_part("a", b"y" * (LIMIT + 1)))
    path = f"/v1/artifacts?conversation_id={talk}"
    problem(await alice.post(path, body, Content_Type=FORM), 413, "artifact.too_large")
    listed = (await alice.get(path)).json()["items"]
    assert [item["id"] for item in listed] == [whole.json()["id"]]


async def test_a_body_in_chunks_is_given_up_at_the_bound(world: ApiWorld) -> None:
    """Its Content-Length, where it has one, is a lie."""
    alice = world.person()
    talk = await conversation(alice)
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b"z" * 1024 * 1024

    for length in ({}, {"Content-Length": "4"}):
        answer = await world.http.post(
            f"/v1/artifacts?conversation_id={talk}",
            content=endless(),
            headers={"Authorization": f"Bearer {alice.token}", "Content-Type": "a/b", **length},
        )
        problem(answer, 413, "artifact.too_large")
    assert sent <= 2 * 27


@pytest.mark.parametrize(
    "name",
    [
        "../a",
        "a/b",
        "a\\b",
        "..",
        ".",
        " ",
        "a\0b",
        "a\rb",
        "a\nSet-Cookie: x",
        "a\u202eb",
        "x" * 256,
    ],
)
async def test_a_name_that_is_none_is_refused(world: ApiWorld, name: str) -> None:
    alice = world.person()
    talk = await conversation(alice)
    answer = await upload(alice, talk, query=f"&filename={quote(name)}")
    problem(answer, 422, "request.invalid")
    if "\r" not in name and "\n" not in name and "\0" not in name:
        path = f"/v1/artifacts?conversation_id={talk}"
        answer = await alice.post(path, form(file_part(name)), Content_Type=FORM)
        problem(answer, 422, "request.invalid")
        assert pointers(answer.json()) == ["/filename"]


async def test_a_name_in_any_script_is_kept_and_written_so_that_no_header_breaks(
    world: ApiWorld,
) -> None:
    alice = world.person()
    talk = await conversation(alice)
    name = 'Größe 50%; "q" 日本.txt'
    artifact = (await upload(alice, talk, query=f"&filename={quote(name)}")).json()
    assert artifact["filename"] == name
    content = await alice.get(f"/v1/artifacts/{artifact['id']}/content")
    assert content.headers["content-disposition"] == (
        'attachment; filename="Gr__e 50__ _q_ __.txt"; '
        "filename*=UTF-8''Gr%C3%B6%C3%9Fe%2050%25%3B%20%22q%22%20%E6%97%A5%E6%9C%AC.txt"
    )


@pytest.mark.parametrize("mime", ["image/gif", "text/html", "image/svg+xml", "text/html; a=b"])
async def test_a_polyglot_is_never_served_as_what_it_claims(world: ApiWorld, mime: str) -> None:
    alice = world.person()
    talk = await conversation(alice)
    artifact = (await upload(alice, talk, POLYGLOT, Content_Type=mime)).json()
    assert artifact["mime"] == mime
    content = await alice.get(f"/v1/artifacts/{artifact['id']}/content")
    assert content.headers["content-type"] == "application/octet-stream"
    assert content.headers["content-disposition"].startswith("attachment; ")


@pytest.mark.parametrize(
    "mime", ["text", "a/b/c", "text/", "x" * 300 + "/y", "image/png,x", "*/*", "a b/c"]
)
async def test_a_type_that_is_none_is_refused(world: ApiWorld, mime: str) -> None:
    alice = world.person()
    answer = await upload(alice, await conversation(alice), Content_Type=mime)
    problem(answer, 415, "body.media_type")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not a form",
        form(),
        form(file_part("a", b"")),
        form(file_part("a"), file_part("b")),
        form(('Content-Disposition: form-data; name="other"', b"x"), file_part("a")),
        form(('Content-Disposition: form-data; name="conversation_id"', b"other"), file_part("a")),
        form(("Content-Disposition: form-data", b"x")),
    ],
)
async def test_a_form_that_holds_no_one_file_is_refused(world: ApiWorld, body: bytes) -> None:
    alice = world.person()
    path = f"/v1/artifacts?conversation_id={await conversation(alice)}"
    problem(await alice.post(path, body, Content_Type=FORM), 422, "request.invalid")


async def test_an_upload_needs_a_body_and_a_conversation(world: ApiWorld) -> None:
    alice = world.person()
    problem(await upload(alice, await conversation(alice), b""), 422, "request.invalid")
    nowhere = await alice.post("/v1/artifacts", b"x", Content_Type="a/b")
    assert pointers(nowhere.json()) == ["/query/conversation_id"]
    assert nowhere.json()["detail"] == "at /query/conversation_id: is missing"
    problem(await alice.get("/v1/artifacts"), 422, "request.invalid")
    boundless = await alice.post("/v1/artifacts", b"x", Content_Type="multipart/form-data")
    problem(boundless, 422, "request.invalid")


async def test_reach_is_the_conversation_s_and_foreign_is_missing(world: ApiWorld) -> None:
    alice, bob, carol = (world.person(sub) for sub in ("alice", "bob", "carol"))
    other, admin = world.person(tenant="elsewhere"), world.person("root", scopes=("admin",))
    talk = await conversation(alice, "bob")
    artifact = (await upload(bob, talk)).json()
    path = f"/v1/artifacts/{artifact['id']}"
    for person in (alice, bob, admin):
        assert (await person.get(path)).json() == artifact
        assert (await person.get(f"/v1/artifacts?conversation_id={talk}")).status_code == 200
    for person in (carol, other):
        for asked in (path, f"{path}/content", f"/v1/artifacts?conversation_id={talk}"):
            problem(await person.get(asked), 404, "not_found")
        problem(await person.delete(path), 404, "not_found")
        problem(await upload(person, talk), 404, "not_found")
    problem(await upload(admin, talk), 404, "not_found")


async def test_who_brought_it_and_whose_conversation_it_is_may_delete(world: ApiWorld) -> None:
    alice, bob, dora = (world.person(sub) for sub in ("alice", "bob", "dora"))
    talk = await conversation(alice, "bob", "dora")
    for remover in (alice, bob, world.person("root", scopes=("admin",))):
        path = f"/v1/artifacts/{(await upload(bob, talk)).json()['id']}"
        problem(await dora.delete(path), 404, "not_found")
        assert (await remover.delete(path)).status_code == 204
        for gone in (path, f"{path}/content"):
            problem(await bob.get(gone), 404, "not_found")
        problem(await remover.delete(path), 404, "not_found")


async def test_each_route_needs_its_scope(world: ApiWorld) -> None:
    alice = world.person()
    talk = await conversation(alice)
    path = f"/v1/artifacts/{(await upload(alice, talk)).json()['id']}"
    reader = world.person(scopes=("runs:read",))
    writer = world.person(scopes=("artifacts:write",))
    assert (await reader.get(path)).status_code == 200
    problem(await upload(reader, talk), 403, "auth.scope")
    problem(await reader.delete(path), 403, "auth.scope")
    problem(await writer.get(path), 403, "auth.scope")
    assert (await writer.delete(path)).status_code == 204


async def test_the_list_comes_in_pages_newest_first(world: ApiWorld) -> None:
    alice = world.person()
    talk = await conversation(alice)
    made = [(await upload(alice, talk, b"%d" % n)).json()["id"] for n in range(3)]
    path = f"/v1/artifacts?conversation_id={talk}&limit=2"
    first = (await alice.get(path)).json()
    rest = (await alice.get(f"{path}&cursor={first['next_cursor']}")).json()
    assert [item["id"] for item in (*first["items"], *rest["items"])] == made[::-1]
    assert rest["next_cursor"] is None
