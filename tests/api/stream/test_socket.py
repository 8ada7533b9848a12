"""The socket of a run or conversation, over a real uvicorn and a real client."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from websockets.exceptions import InvalidStatus

from tests.support.database.postgres import (
    Talk,
    approval_requested,
    cancelled,
    completed,
    new_id,
    paused,
    said,
    started,
)

if TYPE_CHECKING:
    from tests.support.api.server import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_first_frame_says_which_stream_it_is_and_where_it_starts(
    streaming: Served,
) -> None:
    """F67: nobody has to guess which stream a socket is."""
    talk = await streaming.talk()
    run = await talk.ask()
    async with streaming.stream(run, subscribe={"after": 1}) as client:
        assert await client.hear() == {
            "type": "hello",
            "protocol": "turngate.v1",
            "conversation_id": talk.id,
            "run_id": run,
            "after": 1,
            "head": 2,
        }
    async with streaming.stream(talk.id) as client:
        assert (await client.hear())["run_id"] is None


async def test_a_run_is_followed_to_its_end(streaming: Served) -> None:
    talk = await streaming.talk()
    run = await talk.ask()
    async with streaming.stream(run) as client:
        await client.until("live")
        lease = await talk.claim()
        await talk.write(lease, started(run), said(run, "hel"))
        await talk.write(lease, said(run, "lo"))
        await talk.finish(lease, completed(run))
        assert await client.closed() == 1000
    assert client.frames[-1] == {"type": "end", "status": "completed"}
    assert client.kinds.count("live") == 1
    shown = [frame["event"] for frame in client.frames if frame["type"] == "event"]
    async with streaming.http() as http:
        page = (await http.get(f"/v1/runs/{run}/events")).json()
    assert shown == page["items"]


async def test_a_stream_opened_after_each_seq_of_a_finished_run_gives_exactly_the_rest(
    streaming: Served,
) -> None:
    talk = await streaming.talk()
    run = await talk.ask()
    lease = await talk.claim()
    await talk.write(lease, started(run), said(run, "a"))
    await talk.finish(lease, completed(run))
    for after in range(2, 6):
        async with streaming.stream(run, subscribe={"after": after}) as client:
            assert await client.closed() == 1000
        assert client.seqs == list(range(after + 1, 6))
        assert client.frames[-1] == {"type": "end", "status": "completed"}


async def test_an_event_has_one_seq_on_every_stream(streaming: Served) -> None:
    """F60: the conversation has the events of all its runs, none missing."""
    talk = await streaming.talk()
    first = await talk.ask()
    lease = await talk.claim()
    await talk.write(lease, started(first))
    second = await talk.ask()
    await talk.request(cancelled(first))
    async with streaming.stream(talk.id) as conversation, streaming.stream(first) as run:
        await conversation.until("live")
        assert await run.closed() == 1000
        assert conversation.seqs == [1, 2, 3, 4, 5, 6]
        assert run.seqs == [2, 3, 5]
        await talk.request(cancelled(second))
        assert (await conversation.hear())["seq"] == 7


async def test_a_pause_does_not_end_the_stream(streaming: Served) -> None:
    """F65: the socket that saw the pause sees what follows it."""
    talk = await streaming.talk()
    run = await talk.ask()
    lease = await talk.claim()
    async with streaming.stream(run) as client:
        await talk.finish(lease, started(run), paused(run))
        await client.until("run.paused")
        await talk.request(cancelled(run))
        assert await client.closed() == 1000
    assert client.frames[-1] == {"type": "end", "status": "cancelled"}


async def test_closing_a_socket_cancels_nothing(streaming: Served) -> None:
    talk = await streaming.talk()
    run = await talk.ask()
    lease = await talk.claim()
    async with streaming.stream(run) as client:
        await client.until("live")
    async with streaming.stream(run) as client:
        await client.until("live")
        client.connection.transport.abort()
    async with streaming.http() as http:
        assert (await http.get(f"/v1/runs/{run}")).json()["status"] == "queued"
    await talk.finish(lease, started(run), completed(run))


async def test_the_token_may_come_in_the_header(streaming: Served) -> None:
    talk = await streaming.talk()
    headers = {"Authorization": f"Bearer {streaming.token()}"}
    async with streaming.stream(talk.id, token="", additional_headers=headers) as client:
        assert (await client.hear())["type"] == "hello"
        assert client.connection.subprotocol == "turngate.v1"


async def test_a_client_that_offers_no_subprotocol_is_accepted(streaming: Served) -> None:
    talk = await streaming.talk()
    async with streaming.stream(talk.id, subprotocols=None) as client:
        assert (await client.hear())["type"] == "hello"
        assert client.connection.subprotocol is None


async def test_a_new_token_of_the_same_person_keeps_the_stream(streaming: Served) -> None:
    """F75: and another person's closes it."""
    talk = await streaming.talk()
    async with streaming.stream(talk.id, token=streaming.token(ttl_s=-29)) as client:
        await client.until("live")
        await client.say("auth", token=streaming.token())
        await client.say("ping")
        await client.until("pong")
        streaming.clock.step(1.2)
        await client.say("ping")
        await client.until("pong")
        await client.say("auth", token=streaming.token("bob"))
        assert await client.refused() == (4403, "auth.token")


async def test_who_no_longer_takes_part_sees_nothing_more(streaming: Served) -> None:
    talk = await Talk(streaming.store, streaming.tenant).open(participants=["bob"])
    path = f"/v1/conversations/{talk.id}"
    async with (
        streaming.http() as http,
        streaming.stream(talk.id) as alice,
        streaming.stream(talk.id, token=streaming.token("bob")) as bob,
    ):
        assert (await http.patch(path, json={"title": "ours"})).status_code == 200
        await bob.until("conversation.updated")
        assert (await http.patch(path, json={"participants": []})).status_code == 200
        assert await bob.refused() == (4404, "not_found")
        seen = [frame["seq"] for frame in bob.frames if frame["type"] == "event"]
        assert seen == [1, 2]
        await alice.until("conversation.updated")
        assert (await alice.until("conversation.updated"))["seq"] == 3


async def test_the_stream_of_a_run_ends_for_who_no_longer_takes_part(streaming: Served) -> None:
    """service.md 7: as that of the conversation does, while the run goes on."""
    talk = await Talk(streaming.store, streaming.tenant).open(participants=["bob"])
    run = await talk.ask()
    bob_reads = streaming.stream(run, token=streaming.token("bob"))
    async with (
        streaming.http() as http,
        streaming.stream(run) as alice,
        bob_reads as bob,
    ):
        await alice.until("live")
        await bob.until("live")
        path = f"/v1/conversations/{talk.id}"
        assert (await http.patch(path, json={"participants": []})).status_code == 200
        assert await bob.refused() == (4404, "not_found")
        await talk.request(started(run))
        await alice.until("run.started")
    assert [frame["seq"] for frame in bob.frames if frame["type"] == "event"] == [2]


async def test_a_token_that_is_over_closes_the_socket(streaming: Served) -> None:
    talk = await streaming.talk()
    async with streaming.stream(talk.id, token=streaming.token(ttl_s=-29)) as client:
        await client.until("live")
        assert await client.refused() == (4401, "auth.token")


@pytest.mark.parametrize("token", ["nonsense", "eyJhbGciOiJub25lIn0.e30."])
async def test_a_token_that_does_not_hold_closes_with_4401(streaming: Served, token: str) -> None:
    talk = await streaming.talk()
    async with streaming.stream(talk.id, token=token) as client:
        assert await client.refused() == (4401, "auth.token")
    headers = {"Authorization": f"Bearer {token}"}
    async with streaming.stream(talk.id, token="", additional_headers=headers) as client:
        assert await client.refused() == (4401, "auth.token")


async def test_a_token_in_the_url_closes_with_4401(streaming: Served) -> None:
    talk = await streaming.talk()
    async with streaming.stream(talk.id, query=f"?token={streaming.token()}") as client:
        assert await client.refused() == (4401, "auth.token")


async def test_a_page_of_a_foreign_origin_is_refused_before_the_upgrade(streaming: Served) -> None:
    talk = await streaming.talk()
    with pytest.raises(InvalidStatus) as refusal:
        async with streaming.stream(talk.id, origin="https://evil.example"):
            raise AssertionError("upgraded")
    assert refusal.value.response.status_code == 403
    async with streaming.stream(talk.id, origin="https://app.example") as client:
        assert (await client.hear())["type"] == "hello"


async def test_what_is_missing_and_what_is_foreign_look_the_same(streaming: Served) -> None:
    talk = await streaming.talk()
    run = await talk.ask()
    answers = []
    for ident, token in [
        (new_id("run"), streaming.token()),
        (run, streaming.token("mallory")),
        (run, streaming.token(tenant="elsewhere")),
        (talk.id, streaming.token("mallory")),
    ]:
        async with streaming.stream(ident, token=token) as client:
            answers.append(await client.refused())
    assert answers == [(4404, "not_found")] * 4


async def test_reading_needs_its_scope(streaming: Served) -> None:
    talk = await streaming.talk()
    async with streaming.stream(talk.id, token=streaming.token(scopes=("agents:read",))) as client:
        assert await client.refused() == (4403, "auth.scope")


async def test_an_approver_follows_the_run_that_waits_for_them_and_not_the_conversation(
    streaming: Served,
) -> None:
    talk = await streaming.talk()
    run = await talk.ask()
    approval = new_id("appr")
    await talk.request(started(run), approval_requested(approval, run, talk.id), paused(run))
    bob = streaming.token("bob", roles=("approver",))
    async with streaming.stream(run, token=bob) as client:
        await client.until("approval.requested")
    async with streaming.stream(talk.id, token=bob) as client:
        assert await client.refused() == (4404, "not_found")


async def test_after_must_not_lie_beyond_the_head(streaming: Served) -> None:
    talk = await streaming.talk()
    async with streaming.stream(talk.id, subscribe={"after": 1}) as client:
        await client.until("live")
    async with streaming.stream(talk.id, subscribe={"after": 2}) as client:
        assert await client.refused() == (4400, "stream.after")


BAD = {
    "unknown": '{"type":"what"}',
    "no json": "not json",
    "an array": "[]",
    "an ack of the future": '{"type":"ack","seq":99}',
    "binary": b"\x00",
    "a second subscribe": '{"type":"subscribe","after":0}',
    "a repeated key": '{"type":"ping","type":"ping"}',
}


@pytest.mark.parametrize("frame", BAD.values(), ids=BAD.keys())
async def test_a_bad_frame_is_named_and_closes_with_4400(
    streaming: Served, frame: str | bytes
) -> None:
    talk = await streaming.talk()
    async with streaming.stream(talk.id) as client:
        await client.until("live")
        await client.send(frame)
        code, _ = await client.refused()
        assert code == 4400


async def test_a_frame_of_64_kib_is_read_and_a_longer_one_closes_with_1009(
    streaming: Served,
) -> None:
    talk = await streaming.talk()
    async with streaming.stream(talk.id) as client:
        await client.until("live")
        await client.send('{"type":"ping"}'.ljust(65_536))
        await client.until("pong")
        await client.send('{"type":"ping"}'.ljust(65_537))
        assert await client.closed() == 1009


async def test_whoever_does_not_authenticate_in_time_is_closed_with_4401(
    streaming: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.stream.session.PATIENCE", timedelta(seconds=0.1))
    talk = await streaming.talk()
    async with streaming.stream(talk.id, token="", subscribe={}) as client:
        assert await client.refused() == (4401, "auth.token")


async def test_whoever_does_not_subscribe_in_time_is_closed_with_4408(
    streaming: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.stream.session.PATIENCE", timedelta(seconds=0.1))
    talk = await streaming.talk()
    async with streaming.stream(talk.id, subscribe={}) as client:
        assert (await client.refused())[0] == 4408


async def test_a_ping_is_answered_before_and_after_the_hello(streaming: Served) -> None:
    talk = await streaming.talk()
    async with streaming.stream(talk.id, subscribe={}) as client:
        await client.say("ping")
        assert await client.hear() == {"type": "pong"}
        await client.say("subscribe")
        await client.until("live")
        await client.say("ping")
        assert await client.hear() == {"type": "pong"}
