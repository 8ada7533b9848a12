"""Who stops looking does not stop the run (service.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.database.postgres import said, started

if TYPE_CHECKING:
    from tests.support.api.server import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("cleanly", [True, False], ids=["cleanly", "not cleanly"])
async def test_f59_closing_the_tab(streaming: Served, cleanly: bool) -> None:
    """T142: a reader that leaves holds nothing up."""
    talk = await streaming.talk()
    run = await talk.ask()
    lease = await talk.claim()
    await talk.write(lease, started(run))
    async with streaming.stream(run) as client:
        await client.until("live")
        if not cleanly:
            client.connection.transport.abort()
    await talk.write(lease, said(run, "still here"))
    async with streaming.http() as http:
        shown = (await http.get(f"/v1/runs/{run}")).json()
        assert shown["status"] == "running"
        assert (await http.post(f"/v1/runs/{run}/cancel")).json()["status"] == "cancelled"
