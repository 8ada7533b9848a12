"""A token that one process revokes ends in the other: two servers on one database."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from app.trust.base64url import decode
from tests.e2e.processes import END_S, Place, serving
from tests.support.api.server import Client
from tests.support.api.world import problem

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

KNOWN_S = 5


def jti(token: str) -> str:
    """The id that a token says it has."""
    claims = decode(token.split(".")[1])
    assert claims is not None
    ident: str = json.loads(claims)["jti"]
    return ident


async def refusal(http: httpx.AsyncClient, path: str) -> httpx.Response:
    """The first answer that is no success; each of the others takes a second at most."""
    while (answer := await http.get(path, params={"after": 1, "wait": 1})).is_success:
        pass
    return answer


async def test_a_token_revoked_in_one_process_ends_in_the_other(tmp_path: Path) -> None:
    """service.md 2: within five seconds, and so do the sockets that it opened."""
    place = Place(tmp_path)
    async with AsyncExitStack() as stack:
        here, there = [stack.enter_context(serving(place))[0] for _ in range(2)]

        async def client(address: str, token: str) -> httpx.AsyncClient:
            headers = {"Authorization": f"Bearer {token}"}
            http = httpx.AsyncClient(
                base_url=address, headers=headers, timeout=END_S, trust_env=False
            )
            return await stack.enter_async_context(http)

        token = place.token("runs:read runs:write")
        admin = await client(here, place.token("admin", sub="root"))
        alice = await client(there, token)
        talk = (await alice.post("/v1/conversations", json={})).raise_for_status().json()["id"]
        url = f"{there}/v1/conversations/{talk}/stream".replace("http", "ws", 1)
        connection = await stack.enter_async_context(
            connect(url, subprotocols=[Subprotocol("turngate.v1")], proxy=None)
        )
        socket = Client(connection, had=0, is_run=False)
        await socket.say("auth", token=token)
        await socket.say("subscribe", after=0)
        await socket.until("live")
        path = f"/v1/conversations/{talk}/events"
        assert (await alice.get(path)).status_code == 200
        revoked = await admin.post("/v1/revocations", json={"jti": jti(token)})
        assert revoked.status_code == 204, revoked.text
        async with asyncio.timeout(KNOWN_S):
            answer, code = await asyncio.gather(refusal(alice, path), socket.closed())
        problem(answer, 401, "auth.token")
        assert code == 4401
