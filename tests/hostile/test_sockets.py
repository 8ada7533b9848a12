"""Sockets below their messages: handshakes that are none, frames that no sound client sends."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.hostile.wire import (
    BINARY,
    CLOSE,
    CONTINUED,
    KEY,
    PING,
    PONG,
    TEXT,
    Line,
    Wire,
    frame,
    upgrade,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.api.server import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

NOWHERE: Final = "/v1/runs/run_01890000-0000-7000-8000-000000000000/stream"
ASK: Final = b'{"type":"ping"}'


@dataclass(frozen=True)
class Handshake:
    """A handshake with something changed or added, and the status that it gets."""

    status: int
    changed: dict[str, bytes | None]
    more: tuple[Line, ...] = ()
    method: bytes = b"GET"


HANDSHAKES: Final = {
    "a POST": Handshake(405, {}, method=b"POST"),
    "no key": Handshake(400, {"Sec_WebSocket_Key": None}),
    "an empty key": Handshake(400, {"Sec_WebSocket_Key": b""}),
    "a short key": Handshake(400, {"Sec_WebSocket_Key": b"YQ=="}),
    "a key that is no base64": Handshake(400, {"Sec_WebSocket_Key": b"!" * 24}),
    "two keys": Handshake(400, {}, ((b"Sec-WebSocket-Key", KEY),)),
    "no version": Handshake(400, {"Sec_WebSocket_Version": None}),
    "version 8": Handshake(400, {"Sec_WebSocket_Version": b"8"}),
    "a version that is no number": Handshake(400, {"Sec_WebSocket_Version": b"x"}),
    "a subprotocol of rubbish": Handshake(400, {"Sec_WebSocket_Protocol": b",,;\xff"}),
    "another upgrade": Handshake(404, {"Upgrade": b"h2c"}),
    "no upgrade": Handshake(404, {"Connection": b"keep-alive"}),
    "a body": Handshake(400, {"Content_Length": b"4"}),
    "a body in chunks": Handshake(400, {"Transfer_Encoding": b"chunked"}),
    "a long header": Handshake(400, {"X_A": b"a" * 10_000}),
    "many headers": Handshake(400, {}, ((b"X-A", b"a"),) * 200),
    "a header with a control": Handshake(400, {"X_A": b"a\x01b"}),
    "an origin of rubbish": Handshake(403, {"Origin": b"\xff"}),
}


@pytest.mark.parametrize("case", HANDSHAKES.values(), ids=HANDSHAKES.keys())
async def test_a_handshake_that_is_none_is_answered_and_ended(
    port: Served, case: Handshake
) -> None:
    async with Wire.to(port.address) as wire:
        await wire.send(upgrade(NOWHERE, *case.more, method=case.method, **case.changed))
        assert (await wire.answer()).status == case.status
        if case.status != 404:
            assert await wire.rest() == b""


async def test_half_a_handshake_gets_nothing_and_ends_with_its_client(port: Served) -> None:
    async with Wire.to(port.address) as wire:
        await wire.send(upgrade(NOWHERE)[:-2])
        wire.finish()
        assert await wire.rest() == b""


@asynccontextmanager
async def known(port: Served) -> AsyncIterator[Wire]:
    """An open socket whose client is known and has not subscribed."""
    talk = await port.talk()
    token = f"Bearer {port.token()}".encode()
    async with Wire.to(port.address) as wire:
        path = f"/v1/conversations/{talk.id}/stream"
        await wire.send(upgrade(path, (b"Authorization", token)))
        assert (await wire.answer()).status == 101
        yield wire


@dataclass(frozen=True)
class Frames:
    """Frames, and the code that the socket is closed with."""

    code: int
    sent: bytes


START: Final = frame(TEXT, b"{", is_last=False)
# 1002, 1007 and 1009 are RFC 6455's own; 4400 is service.md 7.
FRAMES: Final = {
    "binary": Frames(4400, frame(BINARY, b"\0\1")),
    "binary that is JSON": Frames(4400, frame(BINARY, ASK)),
    "an empty text": Frames(4400, frame(TEXT)),
    "text that is no UTF-8": Frames(1007, frame(TEXT, b'"\xff"')),
    "a surrogate in UTF-8": Frames(1007, frame(TEXT, b'"\xed\xa0\x80"')),
    "a character cut by the end": Frames(1007, frame(TEXT, b'"\xf0\x9f')),
    "no mask": Frames(1002, frame(TEXT, ASK, mask=b"")),
    "a reserved bit": Frames(1002, frame(TEXT, ASK, reserved=4)),
    "all reserved bits": Frames(1002, frame(TEXT, ASK, reserved=7)),
    "a reserved opcode": Frames(1002, frame(0x3)),
    "a reserved control opcode": Frames(1002, frame(0xB)),
    "a continuation of nothing": Frames(1002, frame(CONTINUED, b"{}")),
    "a text within a text": Frames(1002, START + frame(TEXT, b"{}")),
    "a ping in fragments": Frames(1002, frame(PING, b"a", is_last=False)),
    "a ping of 126 bytes": Frames(1002, frame(PING, b"a" * 126)),
    "a close of one byte": Frames(1002, frame(CLOSE, b"\x03")),
    "a close with a code of nobody": Frames(1002, frame(CLOSE, b"\x03\xe7")),
    "a close with a code never sent": Frames(1002, frame(CLOSE, b"\x03\xee")),
    "a close for a reason that is no UTF-8": Frames(1007, frame(CLOSE, b"\x03\xe8\xff")),
    "an announced megabyte": Frames(1009, frame(TEXT, b"{", length=1 << 20)),
    "an announced length of 2 to the 62nd": Frames(1009, frame(TEXT, b"{", length=1 << 62)),
    "fragments beyond the bound": Frames(
        1009, START + frame(CONTINUED, b" " * 40_000, is_last=False) * 2
    ),
    "fragments of nothing without an end": Frames(
        1009, START + frame(CONTINUED, is_last=False) * 5000
    ),
}


@pytest.mark.parametrize("case", FRAMES.values(), ids=FRAMES.keys())
async def test_a_frame_outside_the_protocol_closes_with_its_code(
    port: Served, case: Frames
) -> None:
    async with known(port) as wire:
        await wire.send(case.sent)
        assert await wire.closed() == case.code


async def test_a_message_in_fragments_around_a_ping_is_read(port: Served) -> None:
    async with known(port) as wire:
        pieces = [frame(CONTINUED, bytes([each]), is_last=False) for each in ASK]
        await wire.send(frame(TEXT, is_last=False) + b"".join(pieces) + frame(PING, b"in between"))
        assert await wire.frame() == (PONG, b"in between")
        await wire.send(frame(CONTINUED))
        opcode, payload = await wire.frame()
        assert (opcode, json.loads(payload)) == (TEXT, {"type": "pong"})


async def test_a_flood_of_pings_whose_pongs_nobody_takes_fills_no_memory(port: Served) -> None:
    pings, last = frame(PING, b"a" * 125) * 1000, frame(PING, b"the last one")
    async with known(port) as wire:
        for _ in range(100):
            await wire.send(pings)
        await wire.send(last)
        answered = 0
        while await wire.frame() != (PONG, b"the last one"):
            answered += 1
    # What the kernel held on its way, of the 100,000; it has some 6 MB at most.
    assert answered < 75_000


async def test_whoever_leaves_in_the_middle_leaves_nothing(port: Served) -> None:
    for sent in (START, frame(TEXT, ASK)[:3], frame(CLOSE, b"\x03\xe8")[:2]):
        async with known(port) as wire:
            await wire.send(sent)
    async with known(port) as wire:
        await wire.send(frame(TEXT, ASK))
        assert await wire.frame() == (TEXT, b'{"type":"pong"}')
