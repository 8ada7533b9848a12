"""docs/examples/stream.js in a browser, over a wire that cuts, repeats, loses and falls silent."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.browser.chromium import needs_chromium
from tests.support.loopback.tampered_wire import Cut, Passing, tampered_wire, unspoilt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.browser.chromium import Browser, Page
    from tests.browser.conftest import House
    from tests.support.loopback.tampered_wire import Spoil, TamperedWire

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session"), needs_chromium]

LONG = "\n---\n".join(["call clock_now {}"] * 40)

# Follows a run, and says everything that a reader of the page would be told.
_FOLLOW = """(async () => {
    const { RunStream, withoutGaps } = await import('/stream.js');
    const told = [], seqs = [], gaps = [];
    const stream = new RunStream({ ...%(options)s,
        token: () => '%(token)s',
        onConnection: (connection, detail) => told.push([connection, detail]) });
    globalThis.stream = stream;
    let thrown = null;
    const events = %(whole)s ? withoutGaps(stream, (gap) => gaps.push([gap.had, gap.prev]))
        : stream.events();
    try { for await (const event of events) { seqs.push(event.seq); %(body)s } }
    catch (error) { thrown = { ...error, name: error.name, message: error.message }; }
    return { told, seqs, gaps, thrown, ended: stream.ended, seq: stream.seq };
})()"""


async def follow(
    page: Page, token: str, *, whole: bool = False, body: str = "", **options: Any
) -> Any:
    """Follow a run in the page, to wherever that leads."""
    options["pace"] = {"firstWait": 5, "longestWait": 20} | options.get("pace", {})
    words = {"options": json.dumps(options), "token": token, "body": body}
    return await page.value(_FOLLOW % {**words, "whole": json.dumps(whole)})


@pytest.fixture(scope="module")
def token(house: House) -> str:
    return house.token("reader")


@pytest.fixture(scope="module")
def run(house: House, token: str) -> str:
    """A long run; nothing waits for its end."""
    return house.run(token, LONG, tools=["clock_now"])


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def page(browser: Browser, house: House) -> AsyncIterator[Page]:
    async with browser.page(f"{house.site}/") as opened:
        yield opened


@dataclass
class Reading:
    """A page that follows a run over a wire."""

    page: Page
    house: House
    token: str
    run: str

    async def over(self, spoil: Spoil, **options: Any) -> tuple[Any, TamperedWire]:
        """What the page was told over a wire that is spoilt so, and that wire."""
        async with tampered_wire(self.house.port, spoil) as wire:
            url = f"http://127.0.0.1:{wire.port}"
            found = await follow(self.page, self.token, **{"url": url, "run": self.run} | options)
        return found, wire

    def is_whole(self, found: Any) -> bool:
        """Whether every event came once and in order, up to the end."""
        seqs = [event["seq"] for event in self.house.events(self.token, self.run)]
        return (found["seqs"], found["thrown"], found["ended"]) == (seqs, None, "completed")


@pytest.fixture
def reading(page: Page, house: House, token: str, run: str) -> Reading:
    return Reading(page, house, token, run)


async def test_f61_a_run_is_followed_to_its_end_over_a_hundred_cuts(reading: Reading) -> None:
    """F61: every event once and in order; each socket goes on after the last seq."""
    passed = 0

    async def spoil(frame: Passing) -> list[bytes]:
        nonlocal passed
        passed += frame.is_event
        if frame.is_event and passed % 3 == 0:
            raise Cut
        return [frame.raw]

    found, wire = await reading.over(spoil)
    assert reading.is_whole(found)
    assert wire.cuts >= 100


async def test_an_event_that_comes_twice_is_given_out_once(reading: Reading) -> None:
    async def spoil(frame: Passing) -> list[bytes]:
        return [frame.raw] * (1 + frame.is_event)

    found, wire = await reading.over(spoil)
    assert reading.is_whole(found)
    assert wire.sockets == 1


def loses(lost: int) -> Spoil:
    """Takes one event of the first socket away."""

    async def spoil(frame: Passing) -> list[bytes]:
        is_lost = frame.socket == 1 and frame.said.get("seq") == lost
        return [] if is_lost else [frame.raw]

    return spoil


async def test_f68_a_frame_that_is_lost_is_an_error_with_both_numbers(reading: Reading) -> None:
    found, wire = await reading.over(loses(7))
    assert (found["thrown"]["name"], found["thrown"]["had"], found["thrown"]["prev"]) == (
        "GapError",
        6,
        7,
    )
    assert (found["seqs"], found["ended"]) == ([2, 3, 4, 5, 6], None)
    assert wire.sockets == 1


async def test_what_was_lost_is_read_from_the_log(reading: Reading) -> None:
    found, wire = await reading.over(loses(7), whole=True)
    assert reading.is_whole(found)
    assert found["gaps"] == [[6, 7]]
    read = f"GET /v1/runs/{reading.run}/events?after=6&limit=1000 HTTP/1.1"
    assert [line for line in wire.asked if line.startswith("GET") and "/events" in line] == [read]


def closes(code: int) -> Spoil:
    """Closes the first socket with a code in the place of its third event."""
    was_closed = False

    async def spoil(frame: Passing) -> list[bytes]:
        nonlocal was_closed
        if frame.said.get("seq") == 4 and not was_closed:
            was_closed = True
            return [b"\x88\x02" + code.to_bytes(2, "big")]
        return [] if was_closed and frame.socket == 1 else [frame.raw]

    return spoil


@pytest.mark.parametrize("code", [1001, 1009, 1011, 1013, 4408, 4429])
async def test_f61_after_these_codes_it_comes_back(reading: Reading, code: int) -> None:
    found, wire = await reading.over(closes(code))
    assert reading.is_whole(found)
    assert ["lost", f"the socket closed with {code}"] in found["told"]
    assert wire.sockets == 2


@pytest.mark.parametrize("code", [1000, 4400, 4401, 4403, 4404])
async def test_f61_after_these_codes_it_does_not(reading: Reading, code: int) -> None:
    """1000 without an `end` says nothing of the run, so it is an error as well."""
    found, wire = await reading.over(closes(code))
    assert (found["thrown"]["name"], found["thrown"]["closeCode"]) == ("ClosedError", code)
    assert found["seqs"] == [2, 3]
    assert wire.sockets == 1


async def test_a_refusal_says_what_the_service_said(reading: Reading) -> None:
    found, _ = await reading.over(unspoilt, run="run_01890000-0000-7000-8000-000000000000")
    assert (found["thrown"]["closeCode"], found["thrown"]["code"]) == (4404, "not_found")
    assert found["thrown"]["message"].startswith("not_found: ")


async def test_a_wire_that_falls_silent_is_left(reading: Reading) -> None:
    forever = asyncio.Event()

    async def spoil(frame: Passing) -> list[bytes]:
        if frame.socket == 1 and frame.said.get("seq") == 5:
            await forever.wait()
        return [frame.raw]

    found, wire = await reading.over(spoil, pace={"silence": 300})
    assert reading.is_whole(found)
    # A busy machine may fall silent once more by itself.
    assert wire.sockets >= 2


async def test_who_takes_events_slowly_is_read_ahead_for_only_so_far(reading: Reading) -> None:
    slow = "if (event.seq % 20 === 0) await new Promise((ok) => setTimeout(ok, 20));"
    found, wire = await reading.over(unspoilt, body=slow, pace={"mostFrames": 16})
    assert reading.is_whole(found)
    assert wire.sockets > 1
    assert "lost" not in [connection for connection, _ in found["told"]]


async def test_in_hold_mode_the_run_waits_and_goes_on(reading: Reading) -> None:
    """Without its acknowledgements the run would wait 30 s, and the client be demoted."""
    program = "\n---\n".join(["call clock_now {}"] * 8)
    run = reading.house.run(reading.token, program, tools=["clock_now"])
    again = replace(reading, run=run)
    found, _ = await again.over(unspoilt, mode="hold", window=2)
    assert again.is_whole(found)
    assert not [detail for _, detail in found["told"] if "no longer" in detail]


async def test_a_token_is_renewed_on_the_open_socket(reading: Reading) -> None:
    """The second one is of somebody else, so the service closes; it was heard."""
    asks = reading.house.run(
        reading.token, "call clock_now {}", tools=["clock_now"], approval={"clock_now": "ask"}
    )
    mine, other = reading.token, reading.house.token("other")
    tokens = f"(globalThis.tokens ??= ['{mine}']).length ? tokens.shift() : '{other}'"
    early = {"renewEarly": 10**9, "renewAtMost": 50}
    async with tampered_wire(reading.house.port, unspoilt) as wire:
        url = f"http://127.0.0.1:{wire.port}"
        found = await follow(reading.page, f"' || {tokens} || '", url=url, run=asks, pace=early)
    assert (found["thrown"]["closeCode"], wire.sockets) == (4403, 1)


async def test_f63_a_lost_socket_says_nothing_of_the_run(reading: Reading) -> None:
    """F63: the status is the run's own, and the loss is told as that of the connection."""
    asks = reading.house.run(
        reading.token, "call clock_now {}", tools=["clock_now"], approval={"clock_now": "ask"}
    )
    with reading.house.http(reading.token) as api:
        waiting = {"status": "pending", "run_id": asks}
        while not api.get("/v1/approvals", params=waiting).json()["items"]:
            api.get(f"/v1/runs/{asks}/events", params={"after": 2, "wait": 5})

    async def spoil(frame: Passing) -> list[bytes]:
        if frame.said.get("type") == "live" or frame.socket > 1:
            raise Cut
        return [frame.raw]

    body = "if (event.type === 'run.paused') document.title = (await stream.run()).status;"
    async with tampered_wire(reading.house.port, spoil) as wire, asyncio.TaskGroup() as tasks:
        url = f"http://127.0.0.1:{wire.port}"
        following = tasks.create_task(
            follow(reading.page, reading.token, body=body, url=url, run=asks)
        )
        await reading.page.until("document.title === 'paused'")
        await reading.page.value("stream.stop()")
    found = following.result()
    assert found["ended"] is None
    assert ["lost", "the socket closed with 1006"] in found["told"]
