"""A client that remembers nothing finds what is going on (service.md 4 and 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.database.postgres import cancelled, said, started

if TYPE_CHECKING:
    from tests.support.api.server import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_f64_an_active_run_is_found_by_its_status_and_followed_from_any_seq(
    streaming: Served,
) -> None:
    talk = await streaming.talk()
    over, active = await talk.ask(), await talk.ask()
    await talk.request(cancelled(over))
    lease = await talk.claim()
    await talk.write(lease, started(active), said(active, "one"), said(active, "two"))
    async with streaming.http() as http:
        (found,) = (await http.get("/v1/runs", params={"status": "running"})).json()["items"]
        assert (found["id"], found["conversation_id"]) == (active, talk.id)
        path = f"/v1/runs/{active}/events"
        whole = (await http.get(path)).json()["items"]
        for at, had in enumerate(whole[:-1], start=1):
            page = (await http.get(path, params={"after": had["seq"]})).json()
            assert page["items"] == whole[at:]
            async with streaming.stream(active, subscribe={"after": had["seq"]}) as client:
                await client.until("live")
                assert client.seqs == [event["seq"] for event in whole[at:]]
