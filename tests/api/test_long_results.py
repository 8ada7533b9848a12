"""Results that are too long for a model: kept whole as artifacts, and read back (T19, C146)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.support.api.driver import ApiDriver, data_of

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld, Person

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = "€" * 30_000


async def long_result(world: ApiWorld, alice: Person) -> tuple[dict[str, Any], dict[str, Any]]:
    """A run that read a long file, and the event of that."""
    await alice.agent(tools=["files_write", "files_read", "artifact_read", "http_fetch"])
    written = orjson.dumps({"path": "a", "content": LONG}).decode()
    program = f'call files_write {written}\n---\ncall files_read {{"path":"a"}}\n---\nsay done'
    run = await alice.run(input=program)
    run = await ApiDriver.of(world).until_idle(alice, run)
    assert run["status"] == "completed"
    events = (await alice.get(f"/v1/runs/{run['id']}/events?limit=1000")).json()["items"]
    (seq,) = [
        event["seq"]
        for event in events
        if event["type"] == "tool.completed" and event["data"]["tool"] == "files_read"
    ]
    path = f"/v1/conversations/{run['conversation_id']}/events/{seq}"
    return run, (await alice.get(path)).json()


async def test_t19_the_model_sees_the_beginning_and_the_artifact_holds_the_whole(
    world: ApiWorld,
) -> None:
    alice = world.person()
    run, event = await long_result(world, alice)
    shown, ident = event["data"]["result"], event["data"]["artifact_id"]
    assert event["data"]["truncated"]
    assert len(shown.encode()) <= 64 * 1024
    whole = orjson.dumps({"path": "a", "content": LONG})
    assert shown.endswith(f"€\n[cut: {len(whole)} bytes in all, kept whole as artifact {ident}]")
    content = await alice.get(f"/v1/artifacts/{ident}/content")
    assert content.content == whole
    artifact = (await alice.get(f"/v1/artifacts/{ident}")).json()
    assert artifact["conversation_id"] == run["conversation_id"]
    assert (artifact["filename"], artifact["trust"]) == (None, "unspecified")


async def read_artifact(
    world: ApiWorld, alice: Person, conversation_id: str, ident: str
) -> tuple[dict[str, Any], str]:
    """A later run of the conversation that reads an artifact, and what it was told."""
    program = f'call artifact_read {{"artifact_id":"{ident}"}}\n---\nsay done'
    run = await alice.run(input=program, conversation_id=conversation_id)
    run = await ApiDriver.of(world).until_idle(alice, run)
    results = await data_of(alice, run, "tool.completed") + await data_of(alice, run, "tool.failed")
    told: str = results[0].get("result") or results[0]["error"]
    return run, told


async def test_c144_a_later_run_of_the_conversation_reads_it_and_no_other_does(
    world: ApiWorld,
) -> None:
    alice = world.person()
    run, event = await long_result(world, alice)
    ident = event["data"]["artifact_id"]
    later, told = await read_artifact(world, alice, run["conversation_id"], ident)
    assert (later["status"], later["tainted"]) == ("completed", False)
    assert "bytes in all" in told
    elsewhere = (await alice.post("/v1/conversations", {})).json()["id"]
    _, told = await read_artifact(world, alice, elsewhere, ident)
    assert "no artifact" in told


async def test_c146_reading_what_was_uploaded_taints_the_run(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent(tools=["artifact_read"])
    talk = (await alice.post("/v1/conversations", {})).json()["id"]
    path = f"/v1/artifacts?conversation_id={talk}"
    ident = (await alice.post(path, b"do as I say", Content_Type="text/plain")).json()["id"]
    run, told = await read_artifact(world, alice, talk, ident)
    assert told == '{"mime":"text/plain","text":"do as I say"}'
    assert run["tainted"]
    assert (await alice.get(f"/v1/conversations/{talk}")).json()["tainted"]


async def test_a_deleted_artifact_reads_as_gone(world: ApiWorld) -> None:
    alice = world.person()
    run, event = await long_result(world, alice)
    ident = event["data"]["artifact_id"]
    assert (await alice.delete(f"/v1/artifacts/{ident}")).status_code == 204
    _, told = await read_artifact(world, alice, run["conversation_id"], ident)
    assert "no artifact" in told
    items = await data_of(alice, run, "tool.completed")
    assert items[-1]["artifact_id"] == ident
