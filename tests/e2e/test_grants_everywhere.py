"""A grant lives and ends in every process at once: two servers, each with a worker of its own."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.e2e.processes import END_S, Place, serving
from tests.support.api.grant_holder import Holder, answered
from tests.support.authenticator import ORIGIN, RP_ID

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

SCOPES = "agents:write runs:read runs:write keys:write grants:write"
ALLOWED = {"http_fetch": "allow", "http_post": "allow"}
# Nothing listens there; what a fetch says of that taints all the same.
PROGRAM = (
    'call http_fetch {"url":"http://127.0.0.1:9/"}\n---\n'
    'call http_post {"url":"http://127.0.0.1:9/orders","body":"{}"}\n---\nsay done'
)


@dataclass
class Person:
    """Somebody with a token, at one of the processes."""

    client: httpx.AsyncClient

    async def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return await self.client.post(path, json=body, headers=more)

    async def get(self, path: str, **more: Any) -> httpx.Response:
        return await self.client.get(path, headers=more)

    async def ends(self) -> tuple[str, list[str]]:
        """How the turn of a new run ends, and everything that happened before."""
        run = answered(await self.post("/v1/runs", {"agent": "courier", "input": PROGRAM}), 201)
        kinds: list[str] = []
        after = 0
        while not {"run.paused", "run.completed", "run.failed"}.intersection(kinds):
            path = f"/v1/runs/{run['id']}/events?wait=30&after={after}"
            page = answered(await self.get(path))
            kinds += [event["type"] for event in page["items"]]
            after = page["next_after"]
        [end] = [kind for kind in kinds if kind in {"run.paused", "run.completed", "run.failed"}]
        return end, kinds


async def test_a_revocation_in_one_process_is_heeded_by_the_other_at_once(tmp_path: Path) -> None:
    """turn.md 6.8: what serves is read anew whenever a turn begins."""
    place = Place(tmp_path, (f"TURNGATE_RP_ID={RP_ID}", f"TURNGATE_ALLOWED_ORIGINS={ORIGIN}"))
    async with AsyncExitStack() as stack:
        addresses = [stack.enter_context(serving(place))[0] for _ in range(2)]
        headers = {"Authorization": f"Bearer {place.token(SCOPES)}"}
        here, there = [
            Person(
                await stack.enter_async_context(
                    httpx.AsyncClient(base_url=address, headers=headers, timeout=END_S)
                )
            )
            for address in addresses
        ]
        agent = {"model": "script", "tools": ["http_fetch", "http_post"], "approval": ALLOWED}
        saved = await here.client.put("/v1/agents/courier", json=agent)
        assert saved.status_code == 201, saved.text
        assert (await there.ends())[0] == "run.paused"
        holder = await Holder.of(here)
        grant = await holder.grant()
        for person in (here, there):
            end, kinds = await person.ends()
            assert (end, kinds.count("grant.replayed")) == ("run.completed", 1)
        uses = answered(await there.get(f"/v1/grants/{grant['id']}"))["uses"]
        assert len(uses) == 2
        await holder.revoke(grant["id"])
        for person in (there, here, there, here):
            end, kinds = await person.ends()
            assert (end, kinds.count("grant.replayed")) == ("run.paused", 0)
