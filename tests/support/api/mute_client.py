"""A client that completes the handshake, says what it wants, and then reads nothing at all."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RECEIVE_BUFFER = 4096


@asynccontextmanager
async def mute_client(address: str, path: str, *, token: str, says: str) -> AsyncIterator[Mute]:
    """A connected client that has sent one frame."""
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        raw.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(raw, (host, int(port)))
        await loop.sock_sendall(raw, _upgrade(host, path, token))
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += await loop.sock_recv(raw, 1)
        assert answer.startswith(b"HTTP/1.1 101 ")
        await loop.sock_sendall(raw, _frame(says.encode()))
        yield Mute(raw)


class Mute:
    """What a test may still ask of the client."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw

    async def drain(self) -> bytes:
        """Read after all, up to the end of the connection."""
        loop, chunks = asyncio.get_running_loop(), []
        while chunk := await loop.sock_recv(self._raw, 65536):
            chunks.append(chunk)
        return b"".join(chunks)


def _upgrade(host: str, path: str, token: str) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        f"Authorization: Bearer {token}\r\n\r\n"
    ).encode()


def _frame(data: bytes) -> bytes:
    """A masked text frame of at most 125 bytes."""
    mask = os.urandom(4)
    body = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
    return struct.pack("!BB", 0x81, 0x80 | len(data)) + mask + body
