"""Hostile messages on a socket: refused with a code of the protocol, or taken; never our fault."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest
from websockets.exceptions import ConnectionClosed

from tests.hostile.description import HOLE
from tests.hostile.values import JSON_TEXTS, MALFORMED_TEXTS

if TYPE_CHECKING:
    from tests.support.api.server import Client, Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXTS: Final = JSON_TEXTS | MALFORMED_TEXTS
EARLY: Final = {
    "a type": {"type": HOLE},
    "a token": {"type": "auth", "token": HOLE},
    "an after": {"type": "subscribe", "after": HOLE},
    "a mode": {"type": "subscribe", "mode": HOLE},
    "a window": {"type": "subscribe", "mode": "hold", "window": HOLE},
}
LATE: Final = {
    "all of it": HOLE,
    "a member nobody knows": {"type": "ping", "more": HOLE},
    "a seq": {"type": "ack", "seq": HOLE},
}
# service.md 7 and 11, by hand.
REFUSALS: Final = frozenset(
    {
        (4400, "frame.malformed"),
        (4400, "frame.unknown"),
        (4400, "stream.after"),
        (4400, "stream.ack"),
        (4401, "auth.token"),
        (1009, ""),
    }
)


async def outcome(client: Client, message: str) -> tuple[int, str] | None:
    """How the socket ends after a message, with the code of its error; None if it goes on."""
    try:
        await client.send(message)
        await client.say("ping")
        while True:
            heard = await client.hear()
            if heard["type"] == "pong":
                return None
    except ConnectionClosed as closed:
        errors = [frame["code"] for frame in client.frames if frame["type"] == "error"]
        return closed.rcvd.code if closed.rcvd else 1006, "".join(errors)


async def breaking(port: Served, holed: object, *, is_late: bool) -> list[object]:
    """The texts that end a socket in another way than the contract has, and those ways."""
    talk = await port.talk()
    found: list[object] = []
    for name, text in TEXTS.items():
        message = json.dumps(holed).replace(f'"{HOLE}"', text)
        async with port.stream(talk.id, subscribe=None if is_late else {}) as client:
            if is_late:
                await client.until("live")
            ended = await outcome(client, message)
        if ended is not None and ended not in REFUSALS:
            found.append((name, ended))
    return found


@pytest.mark.parametrize("holed", EARLY.values(), ids=EARLY.keys())
async def test_no_value_in_an_early_message_breaks_a_socket(port: Served, holed: object) -> None:
    assert await breaking(port, holed, is_late=False) == []


@pytest.mark.parametrize("holed", LATE.values(), ids=LATE.keys())
async def test_no_value_in_a_late_message_breaks_a_socket(port: Served, holed: object) -> None:
    assert await breaking(port, holed, is_late=True) == []


OUT_OF_ORDER: Final = {
    "an ack before anything": ('{"type":"ack","seq":0}', (4401, "auth.token")),
    "a ping before a token": ('{"type":"ping"}', (4401, "auth.token")),
    "a subscription before a token": ('{"type":"subscribe"}', (4401, "auth.token")),
    "a frame of the server's": ('{"type":"hello"}', (4400, "frame.unknown")),
    "a server's pong": ('{"type":"pong"}', (4400, "frame.unknown")),
    "a decision": ('{"type":"approve","approval_id":"x"}', (4400, "frame.unknown")),
    "a type in capitals": ('{"type":"PING"}', (4400, "frame.unknown")),
    "two objects": ('{"type":"ping"}{"type":"ping"}', (4400, "frame.malformed")),
    "a byte order mark": ('\ufeff{"type":"ping"}', (4400, "frame.malformed")),
}


@pytest.mark.parametrize(("message", "refusal"), OUT_OF_ORDER.values(), ids=OUT_OF_ORDER.keys())
async def test_a_message_out_of_order_is_refused(
    port: Served, message: str, refusal: tuple[int, str]
) -> None:
    talk = await port.talk()
    async with port.stream(talk.id, token="", subscribe={}) as client:
        assert await outcome(client, message) == refusal


async def test_an_ack_before_the_subscription_is_refused(port: Served) -> None:
    talk = await port.talk()
    async with port.stream(talk.id, subscribe={}) as client:
        assert await outcome(client, '{"type":"ack","seq":0}') == (4400, "stream.ack")


async def test_the_port_is_well_afterwards(port: Served) -> None:
    talk = await port.talk()
    async with port.stream(talk.id) as client, port.http() as http:
        await client.until("live")
        assert (await http.get("/readyz")).status_code == 200
        await client.say("ping")
        assert (await client.until("pong")) == {"type": "pong"}
