"""Events as server-sent events, on the paths of their pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.api.world import pointers, problem
from tests.support.database.postgres import Talk, cancelled, completed, new_id, said, started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from tests.support.api.server import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

Told = dict[str, str]


async def told(answer: httpx.Response) -> AsyncIterator[Told]:
    """What an event stream says, block by block; a comment has the field ""."""
    fields: Told = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
        elif fields:
            yield fields
            fields = {}


async def events_of(answer: httpx.Response) -> list[Told]:
    """The events up to the end of the answer."""
    return [fields async for fields in told(answer) if "data" in fields]


async def ended_run(streaming: Served) -> tuple[Talk, str]:
    """A run with the seqs 2 to 5."""
    talk = await streaming.talk()
    run = await talk.ask()
    lease = await talk.claim()
    await talk.write(lease, started(run), said(run, "a\nb"))
    await talk.finish(lease, completed(run))
    return talk, run


async def test_the_stream_of_an_ended_run_is_its_log_and_ends(streaming: Served) -> None:
    _, run = await ended_run(streaming)
    path = f"/v1/runs/{run}/events"
    async with streaming.http(Accept="text/event-stream") as http, http.stream("GET", path) as it:
        assert it.status_code == 200
        assert it.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert it.headers["cache-control"] == "no-store"
        assert it.headers["x-request-id"]
        events = await events_of(it)
    async with streaming.http() as http:
        page = (await http.get(path)).json()
    assert [json.loads(event["data"]) for event in events] == page["items"]
    assert [event["id"] for event in events] == ["2", "3", "4", "5"]
    assert [event["event"] for event in events] == [item["type"] for item in page["items"]]


@pytest.mark.parametrize(
    "accept", ["*/*", "text/*", "application/json", "text/event-stream;q=0, */*"]
)
async def test_only_who_names_server_sent_events_gets_them(streaming: Served, accept: str) -> None:
    _, run = await ended_run(streaming)
    async with streaming.http(Accept=accept) as http:
        answer = await http.get(f"/v1/runs/{run}/events")
    assert answer.headers["content-type"] == "application/json"


async def test_the_stream_begins_with_the_time_to_wait_before_coming_back(
    streaming: Served,
) -> None:
    _, run = await ended_run(streaming)
    async with streaming.http(Accept="text/event-stream") as http:
        answer = await http.get(f"/v1/runs/{run}/events")
    assert answer.text.startswith("retry: 2000\n\nid: 2\nevent: run.created\ndata: {")


async def test_the_last_event_id_wins_over_after(streaming: Served) -> None:
    _, run = await ended_run(streaming)
    async with streaming.http(Accept="text/event-stream") as http:
        for last, after, ids in [("3", 0, ["4", "5"]), ("0", 4, ["2", "3", "4", "5"])]:
            path = f"/v1/runs/{run}/events?after={after}"
            answer = await http.get(path, headers={"Last-Event-ID": last})
            assert [event["id"] for event in await events_of(answer)] == ids


@pytest.mark.parametrize("last", ["5", "6"])
async def test_whoever_comes_back_to_the_end_of_a_run_gets_204(
    streaming: Served, last: str
) -> None:
    talk, run = await ended_run(streaming)
    await talk.ask()
    async with streaming.http(Accept="text/event-stream") as http:
        answer = await http.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": last})
        assert (answer.status_code, answer.content) == (204, b"")


async def test_a_live_run_is_followed_to_its_end(streaming: Served) -> None:
    talk = await streaming.talk()
    run = await talk.ask()
    path = f"/v1/runs/{run}/events"
    async with streaming.http(Accept="text/event-stream") as http, http.stream("GET", path) as it:
        blocks = told(it)
        while "data" not in await anext(blocks):
            pass
        await talk.request(started(run))
        await talk.request(cancelled(run))
        rest = [fields["id"] async for fields in blocks if "data" in fields]
    assert rest == ["3", "4"]


async def test_the_stream_of_a_conversation_ends_for_who_no_longer_takes_part(
    streaming: Served,
) -> None:
    talk = await Talk(streaming.store, streaming.tenant).open(participants=["bob"])
    path = f"/v1/conversations/{talk.id}"
    async with (
        streaming.http() as http,
        streaming.http(streaming.token("bob"), Accept="text/event-stream") as bob,
        bob.stream("GET", f"{path}/events") as it,
    ):
        blocks = told(it)
        while "data" not in await anext(blocks):
            pass
        await http.patch(path, json={"participants": []})
        assert [fields["id"] async for fields in blocks if "data" in fields] == []


async def test_the_stream_of_a_conversation_goes_on_after_a_run(streaming: Served) -> None:
    talk, _ = await ended_run(streaming)
    path = f"/v1/conversations/{talk.id}/events?after=4"
    async with streaming.http(Accept="text/event-stream") as http, http.stream("GET", path) as it:
        blocks = (fields async for fields in told(it) if "data" in fields)
        assert (await anext(blocks))["id"] == "5"
        await talk.ask()
        assert (await anext(blocks))["id"] == "6"


async def test_an_idle_stream_shows_that_it_lives(
    streaming: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.stream.sse.COMMENT_S", 0.01)
    talk = await streaming.talk()
    path = f"/v1/conversations/{talk.id}/events?after=1"
    async with streaming.http(Accept="text/event-stream") as http, http.stream("GET", path) as it:
        blocks = told(it)
        assert [await anext(blocks) for _ in range(4)] == [{"retry": "2000"}, *[{"": ""}] * 3]


async def test_the_stream_ends_with_its_token(streaming: Served) -> None:
    talk = await streaming.talk()
    token = streaming.token(ttl_s=-29)
    async with streaming.http(token, Accept="text/event-stream") as http:
        answer = await http.get(f"/v1/conversations/{talk.id}/events")
    assert answer.status_code == 200
    assert [event["id"] for event in await events_of(answer)] == ["1"]


async def test_a_client_that_leaves_gives_its_place_back(streaming: Served) -> None:
    talk = await streaming.talk()
    path = f"/v1/conversations/{talk.id}/events"
    async with streaming.http(Accept="text/event-stream") as http, http.stream("GET", path) as it:
        assert await anext(told(it)) == {"retry": "2000"}
    await streaming.edge.streams._empty.wait()


async def test_refusals_come_as_problems_before_the_stream(streaming: Served) -> None:
    talk = await streaming.talk()
    path = f"/v1/conversations/{talk.id}/events"
    async with streaming.http(Accept="text/event-stream") as http:
        problem(await http.get(f"/v1/runs/{new_id('run')}/events"), 404, "not_found")
        beyond = problem(await http.get(path, params={"after": 9}), 422, "request.invalid")
        assert pointers(beyond) == ["/query/after"]
        for last in ("", "x", "-1", "1.5", "99999999999999999", "9007199254740992"):
            answer = await http.get(path, headers={"Last-Event-ID": last})
            document = problem(answer, 422, "request.invalid")
            assert pointers(document) == ["/header/Last-Event-ID"]
        problem(await http.get(path, headers={"Authorization": "Bearer x"}), 401, "auth.token")
    async with streaming.http(Accept="text/html") as http:
        problem(await http.get(path), 406, "not_acceptable")
