"""Revoked tokens: refused wherever they are used, and the end of the streams they opened."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from app.log.envelope import wire_time
from app.service.access.revocations import POLL_S, RevokedTokens
from app.store.keys.revocations import StoreRevocations
from tests.support.api.world import problem
from tests.support.database.postgres import new_id

if TYPE_CHECKING:
    from tests.support.api.server import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

NOON = "2026-11-29T12:00:00Z"


async def revoke(streaming: Served, **body: Any) -> None:
    """As an administrator; then this process looks, as it does every two seconds."""
    async with streaming.http(streaming.token("root", scopes=("admin",))) as http:
        answer = await http.post("/v1/revocations", json=body)
    assert (answer.status_code, answer.content) == (204, b"")
    await streaming.edge.access.revoked.refresh()


def before(streaming: Served, seconds: int) -> str:
    """So many seconds after the tokens of the test were issued."""
    return wire_time(streaming.clock.now() + timedelta(seconds=seconds))


async def status(streaming: Served, token: str) -> int:
    async with streaming.http(token) as http:
        return (await http.get("/v1/conversations")).status_code


async def test_each_process_looks_more_often_than_every_five_seconds() -> None:
    assert POLL_S < 5


async def test_a_token_is_refused_by_its_id(streaming: Served) -> None:
    token, another = streaming.token(), streaming.token()
    claims = await streaming.edge.access.authenticate(token)
    assert claims.jti is not None
    await revoke(streaming, jti=claims.jti)
    async with streaming.http(token) as http:
        problem(await http.get("/v1/conversations"), 401, "auth.token")
    assert await status(streaming, another) == 200


async def test_all_of_a_subject_from_before_a_time_are_refused(streaming: Served) -> None:
    bob, alice = streaming.token("bob"), streaming.token()
    await revoke(streaming, sub="bob", before=before(streaming, -1))
    assert await status(streaming, bob) == 200
    await revoke(streaming, sub="bob", before=before(streaming, 1))
    assert await status(streaming, bob) == 401
    assert await status(streaming, alice) == 200
    # What was refused is never let in again.
    await revoke(streaming, sub="bob", before=before(streaming, -1))
    assert await status(streaming, bob) == 401


async def test_a_revocation_reaches_no_other_tenant(streaming: Served) -> None:
    elsewhere = streaming.token("carol", tenant=f"{streaming.tenant}-2")
    await revoke(streaming, sub="carol", before=before(streaming, 1))
    assert await status(streaming, elsewhere) == 200


async def test_another_process_knows_what_was_revoked_before_it_began(streaming: Served) -> None:
    await revoke(streaming, sub="dave", before=before(streaming, 1))
    who = await streaming.edge.access._recognised(streaming.token("dave"))
    fresh = RevokedTokens(StoreRevocations(streaming.store.everyone), streaming.clock)
    assert not fresh.covers(who)
    async with fresh.running():
        assert fresh.covers(who)


async def test_an_open_socket_is_closed(streaming: Served) -> None:
    talk = await streaming.talk()
    token = streaming.token()
    claims = await streaming.edge.access.authenticate(token)
    async with (
        streaming.stream(talk.id, token=token) as client,
        streaming.stream(talk.id) as another,
    ):
        await client.until("live")
        await another.until("live")
        await revoke(streaming, jti=claims.jti)
        assert await client.closed() == 4401
        await another.send('{"type":"ping"}')
        assert (await another.hear())["type"] == "pong"


async def test_an_open_event_stream_ends(streaming: Served) -> None:
    talk = await streaming.talk()
    token = streaming.token()
    claims = await streaming.edge.access.authenticate(token)
    path = f"/v1/conversations/{talk.id}/events"
    async with (
        streaming.http(token, Accept="text/event-stream") as http,
        http.stream("GET", path) as answer,
    ):
        lines = answer.aiter_lines()
        assert await anext(lines) == "retry: 2000"
        await revoke(streaming, jti=claims.jti)
        assert "event: conversation.created" in [line async for line in lines]


async def test_the_tenants_log_tells_it(streaming: Served) -> None:
    jti, ends = new_id("tok"), before(streaming, 1)
    await revoke(streaming, jti=jti)
    await revoke(streaming, sub="erin", before=ends)
    async with streaming.http(streaming.token("root", scopes=("admin",))) as http:
        items = (await http.get("/v1/audit/events", params={"limit": 1000})).json()["items"]
    told = [item["data"] for item in items if item["type"] == "token.revoked"]
    assert {"resource": {"jti": jti}, "by": "root"} in told
    assert {"resource": {"sub": "erin", "before": ends}, "by": "root"} in told


async def test_only_an_administrator_revokes(streaming: Served) -> None:
    async with streaming.http() as http:
        problem(await http.post("/v1/revocations", json={"jti": "x"}), 403, "auth.scope")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"jti": "a", "sub": "b", "before": NOON},
        {"sub": "b"},
        {"before": NOON},
        {"jti": "a", "before": NOON},
        {"jti": ""},
        {"sub": "b", "before": "2026-11-29T12:00:00"},
        {"sub": "b", "before": "tomorrow"},
    ],
    ids=str,
)
async def test_what_says_neither_or_both_is_refused(
    streaming: Served, body: dict[str, Any]
) -> None:
    async with streaming.http(streaming.token("root", scopes=("admin",))) as http:
        problem(await http.post("/v1/revocations", json=body), 422, "request.invalid")
