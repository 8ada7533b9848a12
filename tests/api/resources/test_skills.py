"""Skills over HTTP: put, read, list, delete, import (service.md 4, run-context.md 6)."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api.world import pointers, problem

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld, Person

pytestmark = pytest.mark.asyncio(loop_scope="session")

ZIP = {"Content_Type": "application/zip"}


def body(**members: Any) -> dict[str, Any]:
    """The least that a skill has."""
    least = {"trigger": "On release", "steps": ["Do it."], "origin": "pack", "scope": "tenant"}
    return least | members


def folder(name: str, **files: bytes) -> dict[str, bytes]:
    """A sound folder of a skill."""
    head = f"---\nname: {name}\ndescription: Does {name}.\n---\n# Do it\n"
    others = {f"{name}/{path}": content for path, content in files.items()}
    return {f"{name}/SKILL.md": head.encode(), **others}


def zipped(entries: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return out.getvalue()


async def listed(person: Person) -> list[str]:
    answer = await person.get("/v1/skills")
    return [item["name"] for item in answer.json()["items"]]


async def test_a_skill_is_created_replaced_read_listed_and_deleted(world: ApiWorld) -> None:
    alice = world.person()
    made = await alice.put("/v1/skills/deploy", body(files={"a/b.txt": "é"}, tags=["ops"]))
    assert made.status_code == 201
    skill = made.json()
    assert skill["files"] == [{"path": "a/b.txt", "size_bytes": 2}]
    assert (skill["name"], skill["trust"], skill["revision"]) == ("deploy", "trusted_user", 1)
    assert (await alice.get("/v1/skills/deploy")).json() == skill
    replaced = await alice.put("/v1/skills/deploy", body(title="Deploy"))
    assert (replaced.status_code, replaced.json()["revision"]) == (200, 2)
    assert replaced.json()["created_at"] == skill["created_at"]
    await alice.put("/v1/skills/audit", body())
    assert await listed(alice) == ["deploy", "audit"]
    assert (await alice.delete("/v1/skills/deploy")).status_code == 204
    problem(await alice.get("/v1/skills/deploy"), 404, "not_found")
    problem(await alice.delete("/v1/skills/deploy"), 404, "not_found")
    assert await listed(alice) == ["audit"]


async def test_the_same_content_again_is_no_new_revision(world: ApiWorld) -> None:
    """C139, over PUT."""
    alice = world.person()
    first = (await alice.put("/v1/skills/deploy", body(title="é"))).json()
    again = await alice.put("/v1/skills/deploy", body(title="é"))
    assert (again.status_code, again.json()) == (200, first)


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"steps": []}, "/steps"),
        ({"steps": [" "]}, "/steps/0"),
        ({"trigger": ""}, "/trigger"),
        ({"origin": "human"}, "/origin"),
        ({"scope": "world"}, "/scope"),
        ({"files": {"../x": "y"}}, "/files/..~1x"),
        ({"conversation_id": "conv_1"}, "/conversation_id"),
        ({"scope": "session"}, "/conversation_id"),
        ({"scope": "session", "conversation_id": "conv_1"}, "/conversation_id"),
        ({"unknown": 1}, "/unknown"),
    ],
)
async def test_what_is_no_skill_is_refused(
    world: ApiWorld, members: dict[str, Any], pointer: str
) -> None:
    alice = world.person()
    refused = problem(await alice.put("/v1/skills/x", body(**members)), 422, "request.invalid")
    assert pointers(refused) == [pointer]


@pytest.mark.parametrize("member", ["trigger", "steps", "origin", "scope"])
async def test_what_is_mandatory_must_be_there(world: ApiWorld, member: str) -> None:
    document = body()
    del document[member]
    refused = await world.person().put("/v1/skills/x", document)
    assert pointers(problem(refused, 422, "request.invalid")) == [f"/{member}"]


@pytest.mark.parametrize("name", ["a--b", "A", "-a", "a_b", "a" * 65])
async def test_a_name_must_be_one_of_a_skill(world: ApiWorld, name: str) -> None:
    refused = await world.person().put(f"/v1/skills/{name}", body())
    assert pointers(problem(refused, 422, "request.invalid")) == ["/path/name"]


async def test_a_skill_of_another_tenant_or_user_is_not_there(world: ApiWorld) -> None:
    """C133, over HTTP."""
    alice, bob = world.person(), world.person("bob")
    eve = world.person("alice", tenant=f"{world.tenant}-other")
    await alice.put("/v1/skills/own", body(scope="user"))
    await alice.put("/v1/skills/shared", body())
    assert await listed(alice) == ["shared", "own"]
    assert await listed(bob) == ["shared"]
    assert await listed(eve) == []
    problem(await bob.get("/v1/skills/own"), 404, "not_found")
    problem(await bob.delete("/v1/skills/own"), 404, "not_found")
    problem(await eve.get("/v1/skills/shared"), 404, "not_found")


async def test_ones_own_skill_comes_before_everybody_s(world: ApiWorld) -> None:
    alice, bob = world.person(), world.person("bob")
    await alice.put("/v1/skills/deploy", body(title="shared"))
    own = await alice.put("/v1/skills/deploy", body(title="own", scope="user"))
    assert own.status_code == 201
    assert (await alice.get("/v1/skills/deploy")).json()["title"] == "own"
    assert (await bob.get("/v1/skills/deploy")).json()["title"] == "shared"
    await alice.delete("/v1/skills/deploy")
    assert (await alice.get("/v1/skills/deploy")).json()["title"] == "shared"


async def test_what_was_generated_is_untrusted_and_replaces_no_pack(world: ApiWorld) -> None:
    alice = world.person()
    made = await alice.put("/v1/skills/found", body(origin="generated"))
    assert made.json()["trust"] == "quarantined_content"
    vouched = await alice.put("/v1/skills/found", body(origin="generated", trust="trusted_user"))
    assert vouched.json()["trust"] == "trusted_user"
    await alice.put("/v1/skills/deploy", body())
    for scope in ("tenant", "user"):
        refused = await alice.put("/v1/skills/deploy", body(origin="generated", scope=scope))
        assert pointers(problem(refused, 422, "request.invalid")) == ["/origin"]
    own = await alice.put("/v1/skills/found", body(scope="user", origin="generated", title="own"))
    assert own.status_code == 201
    await world.person("bob").put("/v1/skills/found", body(title="pack"))
    assert (await alice.get("/v1/skills/found")).json()["title"] == "pack"


async def test_skills_need_their_scopes(world: ApiWorld) -> None:
    reader = world.person(scopes=("tools:read",))
    writer = world.person(scopes=("skills:write",))
    problem(await reader.put("/v1/skills/x", body()), 403, "auth.scope")
    problem(await reader.post("/v1/skills/import", b"", **ZIP), 403, "auth.scope")
    problem(await reader.delete("/v1/skills/x"), 403, "auth.scope")
    problem(await writer.get("/v1/skills"), 403, "auth.scope")


async def test_a_list_is_paged_newest_first(world: ApiWorld) -> None:
    alice = world.person()
    for name in ("a", "b", "c"):
        await alice.put(f"/v1/skills/{name}", body())
    first = (await alice.get("/v1/skills?limit=2")).json()
    assert [item["name"] for item in first["items"]] == ["c", "b"]
    rest = (await alice.get(f"/v1/skills?limit=2&cursor={first['next_cursor']}")).json()
    assert ([item["name"] for item in rest["items"]], rest["next_cursor"]) == (["a"], None)


async def test_a_zip_of_folders_is_imported_and_again_without_a_new_revision(
    world: ApiWorld,
) -> None:
    """C139."""
    alice = world.person()
    pack = zipped(folder("b") | folder("a", **{"x.txt": b"hi"}))
    first = await alice.post("/v1/skills/import", pack, **ZIP)
    assert first.status_code == 200, first.text
    assert [(i["name"], i["revision"]) for i in first.json()["items"]] == [("a", 1), ("b", 1)]
    again = await alice.post("/v1/skills/import", pack, **ZIP)
    assert again.json() == first.json()
    changed = await alice.post("/v1/skills/import", zipped(folder("a") | folder("b")), **ZIP)
    assert [i["revision"] for i in changed.json()["items"]] == [2, 1]
    skill = (await alice.get("/v1/skills/a")).json()
    assert (skill["description"], skill["steps"]) == ("Does a.", ["# Do it\n"])
    assert (skill["origin"], skill["scope"], skill["trust"]) == ("pack", "tenant", "trusted_user")


async def test_one_bad_entry_refuses_the_whole_import(world: ApiWorld) -> None:
    """C140."""
    alice = world.person()
    for entry in ("ok/../../x", "/x"):
        pack = zipped(folder("ok") | {entry: b"x"})
        refused = await alice.post("/v1/skills/import", pack, **ZIP)
        assert entry in problem(refused, 422, "skill.import_invalid")["detail"]
    refused = await alice.post("/v1/skills/import", b"PK", **ZIP)
    told = problem(refused, 422, "skill.import_invalid")
    assert told["detail"] == "the body is no zip archive"
    assert await listed(alice) == []


async def test_an_import_is_a_zip_of_at_most_a_mebibyte(world: ApiWorld) -> None:
    alice = world.person()
    problem(await alice.post("/v1/skills/import", {}), 415, "body.media_type")
    large = await alice.post("/v1/skills/import", bytes(1024 * 1024 + 1), **ZIP)
    problem(large, 413, "body.too_large")


async def test_an_import_may_be_sent_twice_under_one_key(world: ApiWorld) -> None:
    alice = world.person()
    pack = zipped(folder("a"))
    first = await alice.post("/v1/skills/import", pack, idempotency_key="k", **ZIP)
    await alice.delete("/v1/skills/a")
    again = await alice.post("/v1/skills/import", pack, idempotency_key="k", **ZIP)
    assert again.json() == first.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert await listed(alice) == []
    other = await alice.post("/v1/skills/import", zipped(folder("b")), idempotency_key="k", **ZIP)
    problem(other, 409, "idempotency.mismatch")


async def test_an_agent_says_how_it_reads_skills(world: ApiWorld) -> None:
    """C127."""
    alice = world.person()
    agent = await alice.put("/v1/agents/a", {"model": "script", "tools": ["skill_get"]})
    assert agent.json()["skills"] == {}
    wanted = {"max_entries": 5, "pinned": ["deploy"]}
    told = await alice.put("/v1/agents/a", {"model": "script", "skills": wanted})
    assert told.json()["skills"] == wanted
    same = await alice.put(
        "/v1/agents/a", {"model": "script", "skills": wanted | {"directory": None}}
    )
    assert same.json()["digest"] == told.json()["digest"]


@pytest.mark.parametrize(
    "skills",
    [{"max_entries": -1}, {"max_entries": 201}, {"selection": "pinned_then_top"}, {"x": 1}],
)
async def test_an_agent_out_of_bounds_is_refused(world: ApiWorld, skills: dict[str, Any]) -> None:
    """C127."""
    refused = await world.person().put("/v1/agents/a", {"model": "script", "skills": skills})
    [pointer] = pointers(problem(refused, 422, "request.invalid"))
    assert pointer == f"/skills/{next(iter(skills))}"
