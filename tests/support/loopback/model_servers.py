"""A server that speaks the wire formats of model vendors: what it answers is scripted, what it was
asked is kept."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

Ending = Literal["end", "cut", "hang", "flood"]


@dataclass(frozen=True)
class Asked:
    """A request as it arrived; header names in lower case, `body` is empty where it is no JSON."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    method: str = "POST"
    raw: bytes = b""


@dataclass(frozen=True)
class Answer:
    """One answer: its pieces, and how it ends. A flood repeats the last piece for ever."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/event-stream"),)
    ending: Ending = "end"


@dataclass
class ModelServer:
    """Gives `answers` in turn. `left` is set when a client hangs up, `blocked` when it stalls."""

    port: int = 0
    answers: list[Answer] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    blocked: asyncio.Event = field(default_factory=asyncio.Event)
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections[task] = writer
        try:
            while True:
                self.asked.append(await _read(reader))
                answer = self.answers.pop(0)
                lines = [f"HTTP/1.1 {answer.status} X", "Transfer-Encoding: chunked"]
                lines += [f"{name}: {value}" for name, value in answer.headers]
                writer.write("\r\n".join([*lines, "", ""]).encode())
                for piece in answer.pieces:
                    await self._send(writer, piece)
                await self._finish(answer, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()

    async def _finish(
        self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        match answer.ending:
            case "end":
                writer.write(b"0\r\n\r\n")
                await writer.drain()
            case "cut":
                writer.transport.abort()
                raise ConnectionAbortedError
            case "hang":
                await reader.readexactly(1)
            case "flood":
                while True:
                    await self._send(writer, answer.pieces[-1])

    async def _send(self, writer: asyncio.StreamWriter, piece: bytes) -> None:
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        try:
            async with asyncio.timeout(0.5):
                await writer.drain()
        except TimeoutError:
            self.blocked.set()
            await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    pairs = [line.split(": ", 1) for line in head[1:] if line]
    headers = {name.lower(): value for name, value in pairs}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = head[0].split(" ")
    is_json = headers.get("content-type") == "application/json"
    return Asked(path, headers, json.loads(raw) if is_json and raw else {}, method, raw)


@asynccontextmanager
async def model_server(*answers: Answer) -> AsyncIterator[ModelServer]:
    """A server on a free port, for the length of the block."""
    model = ModelServer(answers=list(answers))
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    model.port = server.sockets[0].getsockname()[1]
    try:
        yield model
    finally:
        server.close()
        for writer in model.connections.values():
            writer.transport.abort()
        await asyncio.gather(*model.connections)


def refused(status: int, body: dict[str, Any], *headers: tuple[str, str]) -> Answer:
    """An error with a JSON body."""
    kind = ("Content-Type", "application/json")
    return Answer([json.dumps(body).encode()], status, (kind, *headers))


def chat_piece(
    delta: dict[str, Any] | None = None,
    *,
    finish: str | None = None,
    usage: dict[str, Any] | None = None,
) -> bytes:
    """One chunk of OpenAI's chat completions; without a delta it holds usage alone."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1_795_953_600,
            "model": "m-2026",
            "choices": [] if delta is None else [choice],
            "usage": usage,
        }
    )


def chat(*pieces: bytes, ending: Ending = "end") -> Answer:
    """A stream of chat completions, with its end mark if it ends well."""
    return Answer([*pieces, *([b"data: [DONE]\n\n"] if ending == "end" else [])], ending=ending)


def call_piece(index: int, arguments: str, *, name: str = "", call_id: str = "") -> bytes:
    """A chunk with a piece of one call."""
    call: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if name:
        call |= {"id": call_id, "type": "function"}
        call["function"]["name"] = name
    return chat_piece({"tool_calls": [call]})


def claude(*blocks: tuple[dict[str, Any], list[dict[str, Any]]], stop: str = "end_turn") -> Answer:
    """A stream of Anthropic's messages: content blocks, each with its deltas."""
    usage = {"input_tokens": 40, "cache_read_input_tokens": 22, "cache_creation_input_tokens": 11}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    if stop:
        events.append(
            {
                "type": "message_delta",
                "delta": {"stop_reason": stop, "stop_sequence": None},
                "usage": {"output_tokens": 9},
            }
        )
    events.append({"type": "message_stop"})
    return Answer([sse(event, event["type"]) for event in events])


def claude_text(*pieces: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block of text of Anthropic's, in these pieces."""
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return {"type": "text", "text": ""}, deltas


def claude_call(
    call_id: str, *pieces: str, name: str = "look_up"
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block with a call of Anthropic's, its arguments in these pieces."""
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}, deltas


def sse(data: dict[str, Any], event: str = "") -> bytes:
    """One server-sent event."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()
