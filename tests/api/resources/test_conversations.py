"""Conversations over HTTP: their people, their messages, their reach (service.md 2 and 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.log.calls import MessageAssistant, ReplyPart
from app.log.envelope import NewEvent
from app.log.payload import UsageTotals, WorkerRef
from app.policy.taint import Trust
from tests.support.api.world import pointers, problem
from tests.support.database.postgres import Talk

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_conversation_is_opened_changed_and_read(world: ApiWorld) -> None:
    alice = world.person()
    body = {"title": "t", "participants": ["bob", "bob"], "metadata": {"k": 1}}
    made = await alice.post("/v1/conversations", body)
    assert made.status_code == 201
    conversation = made.json()
    assert conversation == {
        "id": conversation["id"],
        "title": "t",
        "principal": "alice",
        "participants": ["bob"],
        "head_seq": 1,
        "tainted": False,
        "active_run_id": None,
        "metadata": {"k": 1},
        "created_at": "2026-11-29T12:00:00.000Z",
    }
    path = f"/v1/conversations/{conversation['id']}"
    changed = (await alice.patch(path, {"title": None})).json()
    assert changed == {**conversation, "title": None, "head_seq": 2}
    changed = (await alice.patch(path, {"participants": [], "metadata": {}})).json()
    assert changed == {
        **conversation,
        "title": None,
        "participants": [],
        "metadata": {},
        "head_seq": 3,
    }
    assert (await alice.patch(path, {})).json() == changed
    assert (await alice.get(path)).json() == changed


async def test_an_empty_body_opens_a_conversation_and_a_blank_one_does_not(
    world: ApiWorld,
) -> None:
    alice = world.person()
    assert (await alice.post("/v1/conversations", {})).status_code == 201
    problem(await alice.post("/v1/conversations"), 422, "request.invalid")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"title": 7}, "/title"),
        ({"title": "a\u0000"}, "/title"),
        ({"title": "x" * 501}, "/title"),
        ({"participants": None}, "/participants"),
        ({"participants": [""]}, "/participants/0"),
        ({"metadata": {"k": "x" * 20_000}}, "/metadata"),
        ({"principal": "eve"}, "/principal"),
    ],
)
async def test_a_conversation_that_does_not_hold_is_refused(
    world: ApiWorld, body: dict[str, object], pointer: str
) -> None:
    answer = await world.person().post("/v1/conversations", body)
    assert pointers(problem(answer, 422, "request.invalid")) == [pointer]


async def test_metadata_comes_back_whole(world: ApiWorld) -> None:
    metadata = {"nul": "a\u0000b", "deep": [{"x": [1, 2.5, None, True]}], "ä": "\U0001f600"}
    made = await world.person().post("/v1/conversations", {"metadata": metadata})
    assert made.json()["metadata"] == metadata


async def test_its_people_and_admins_read_it_and_its_principal_changes_it(
    world: ApiWorld,
) -> None:
    alice, bob, eve = world.person(), world.person("bob"), world.person("eve")
    boss = world.person("boss", scopes=("admin",))
    made = (await alice.post("/v1/conversations", {"participants": ["bob"]})).json()
    path = f"/v1/conversations/{made['id']}"
    for person in (alice, bob, boss):
        assert (await person.get(path)).status_code == 200
        assert [c["id"] for c in (await person.get("/v1/conversations")).json()["items"]] == [
            made["id"]
        ]
    for path_of in (path, f"{path}/messages", f"{path}/session-approvals"):
        problem(await eve.get(path_of), 404, "not_found")
    assert (await eve.get("/v1/conversations")).json()["items"] == []
    for person in (bob, boss, eve):
        problem(await person.patch(path, {"title": "mine"}), 404, "not_found")


async def test_messages_are_what_was_said_without_the_words_of_workers(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    run = await alice.run(input=[{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])
    talk = Talk(world.store, world.tenant, run["conversation_id"])

    def reply(message_id: str, text: str, worker: WorkerRef | None = None) -> NewEvent:
        said = MessageAssistant(
            message_id=message_id,
            usage=UsageTotals(),
            stop="stop",
            content=(ReplyPart(type="text", text=text),),
            worker=worker,
        )
        return NewEvent(said, run_id=run["id"], trust=Trust.QUARANTINED_CONTENT)

    await talk.request(
        reply("msg_1", "from the worker", WorkerRef(call_id="call_0_0", agent="w")),
        reply("msg_2", "hi"),
        reply("msg_3", "again"),
    )
    path = f"/v1/conversations/{talk.id}/messages"
    page = (await alice.get(path)).json()
    assert page["next_cursor"] is None
    items = page["items"]
    assert [item["role"] for item in items] == ["user", "assistant", "assistant"]
    assert [part["text"] for part in items[0]["content"]] == ["one", "two"]
    assert items[1] == {
        "id": "msg_2",
        "run_id": run["id"],
        "seq": items[1]["seq"],
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
        "trust": "quarantined_content",
        "at": "2026-11-29T12:00:00.000Z",
    }
    first = (await alice.get(f"{path}?limit=2")).json()
    rest = (await alice.get(f"{path}?limit=2&cursor={first['next_cursor']}")).json()
    assert first["items"] + rest["items"] == items
    assert rest["next_cursor"] is None
