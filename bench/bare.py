"""The baseline server: the same uvicorn, the same frames, and nothing behind them.

It answers a POST with an id, plays recorded frames on a socket, and sends one frame on an open
socket for a POST. Run as `python -m bench.bare PORT FILE`; the file has a frame a line.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Response, WebSocket

from app.cli.serving import server_config
from app.cli.sockets import listening_socket


def bare_app(frames: list[str]) -> FastAPI:
    """The application that plays `frames`."""
    app = FastAPI(openapi_url=None)
    pushed: asyncio.Queue[str] = asyncio.Queue()

    @app.post("/v1/runs", status_code=201)
    async def create() -> dict[str, str]:
        return {"id": "run_1", "conversation_id": "conv_1", "status": "queued"}

    @app.post("/push")
    async def push() -> Response:
        pushed.put_nowait(frames[0])
        return Response(b"{}", media_type="application/json")

    @app.websocket("/v1/runs/{run_id}/stream")
    async def play(socket: WebSocket) -> None:
        await socket.accept("turngate.v1")
        await socket.receive_text()
        for frame in frames:
            await socket.send_text(frame)
        await socket.close()

    @app.websocket("/repeat/{count}")
    async def repeat(socket: WebSocket, count: int) -> None:
        await socket.accept("turngate.v1")
        await socket.receive_text()
        for at in range(count):
            await socket.send_text(frames[at % len(frames)])
        await socket.close()

    @app.websocket("/idle")
    async def idle(socket: WebSocket) -> None:
        await socket.accept("turngate.v1")
        await socket.receive_text()
        await socket.send_text('{"type":"live"}')
        await socket.receive()

    @app.websocket("/pushed")
    async def wait(socket: WebSocket) -> None:
        await socket.accept("turngate.v1")
        await socket.receive_text()
        while True:
            await socket.send_text(await pushed.get())

    return app


def main() -> None:
    """Serve until a signal."""
    port, file = sys.argv[1:]
    with listening_socket("127.0.0.1", int(port)) as listener:
        frames = Path(file).read_text().splitlines()
        uvicorn.Server(server_config(bare_app(frames))).run([listener])


if __name__ == "__main__":
    main()
