"""docs/streaming.md: its client follows a run of a real server, over wires good and bad."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.docs.samples import program
from tests.e2e.processes import END_S, Place, serving
from tests.support.loopback.tampered_wire import Cut, tampered_wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.loopback.tampered_wire import Passing, Spoil, TamperedWire

pytestmark = pytest.mark.e2e

PAGE = program("docs/streaming.md")
PROGRAM = "\n---\n".join(["call clock_now {}"] * 40)


@dataclass(frozen=True)
class Followed:
    """A finished run of a real server, and whoever may read it."""

    address: str
    token: str
    run: str

    def follow(self, address: str | None = None, **more: Any) -> list[dict[str, Any]]:
        """The events that the client of the page gives out."""
        given = {"token": self.token, "first_wait": 0.005} | more
        return list(PAGE["follow"](address or self.address, run_id=self.run, **given))

    async def over(self, spoil: Spoil, **more: Any) -> tuple[list[int], TamperedWire]:
        """The seqs that it gives out over a wire that is spoilt so, and that wire."""
        async with tampered_wire(int(self.address.rpartition(":")[2]), spoil) as wire:
            address = f"http://127.0.0.1:{wire.port}"
            events = await asyncio.to_thread(partial(self.follow, address, **more))
        return [event["seq"] for event in events], wire

    def seqs(self) -> list[int]:
        """The seqs of the run's events, from the pages."""
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"{self.address}/v1/runs/{self.run}/events?limit=1000"
        page = httpx.get(url, headers=headers, timeout=END_S, trust_env=False)
        return [event["seq"] for event in page.raise_for_status().json()["items"]]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    place = Place(tmp_path_factory.mktemp("streaming"))
    with serving(place) as (address, _):
        token = place.token("agents:write runs:write runs:read")
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=address, headers=headers, timeout=END_S) as api:
            spec = {"model": "script", "tools": ["clock_now"], "max_steps": 50}
            api.put("/v1/agents/clerk", json=spec).raise_for_status()
            order = {"agent": "clerk", "input": PROGRAM}
            run = api.post("/v1/runs", json=order).raise_for_status().json()
        yield Followed(address, token, run["id"])


def test_the_client_of_the_page_follows_a_run_to_its_end_and_resumes(followed: Followed) -> None:
    events = followed.follow()
    assert (events[0]["type"], events[-1]["type"]) == ("run.created", "run.completed")
    assert followed.follow(after=events[1]["seq"]) == events[2:]
    nobody = "no token"
    with pytest.raises(RuntimeError, match=r"^auth\.token: "):
        followed.follow(token=nobody)


async def test_f61_over_a_hundred_cuts_every_event_comes_once_and_in_order(
    followed: Followed,
) -> None:
    """F61, F63: each loss is told as one of the connection, and never ends the events."""
    passed, losses = 0, 0

    async def spoil(frame: Passing) -> list[bytes]:
        nonlocal passed
        passed += frame.is_event
        if frame.is_event and passed % 3 == 0:
            raise Cut
        return [frame.raw] * (1 + frame.is_event)

    def lost(error: Exception) -> None:
        nonlocal losses
        losses += 1

    seqs, wire = await followed.over(spoil, lost=lost)
    assert seqs == followed.seqs()
    assert wire.cuts >= 100
    assert losses == wire.cuts


async def test_f68_a_frame_that_is_lost_is_an_error_with_both_numbers(followed: Followed) -> None:
    async def spoil(frame: Passing) -> list[bytes]:
        return [] if frame.said.get("seq") == 7 else [frame.raw]

    with pytest.raises(PAGE["Gap"]) as found:
        await followed.over(spoil)
    assert (found.value.had, found.value.prev) == (6, 7)


@pytest.mark.parametrize("code", [1000, 4400, 4401, 4403, 4404])
async def test_f61_after_a_final_code_it_does_not_come_back(followed: Followed, code: int) -> None:
    """1000 without an `end` says nothing of the run, so it is an error as well."""

    async def spoil(frame: Passing) -> list[bytes]:
        return (
            [b"\x88\x02" + code.to_bytes(2, "big")] if frame.said.get("seq") == 4 else [frame.raw]
        )

    with pytest.raises(RuntimeError, match=f"closed with {code}"):
        await followed.over(spoil)
