"""The stdio transport: an operator's command, one JSON-RPC message a line, every line bounded.

What the process writes to its standard error is discarded: it may quote what a call was about. The
process leads a group of its own, and the whole group ends with the connection.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, cast

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Callable, Sequence

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    Incoming = SessionMessage | Exception
    Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]

MAX_LINE_BYTES: Final = 4 * 1024 * 1024
EXIT_S: Final = 1.0
_GONE: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError)


@asynccontextmanager
async def stdio_transport(
    command: Sequence[str], ended: Callable[[], None]
) -> AsyncIterator[Streams]:
    """Streams to and from a started process, for the length of the block. Raises OSError.

    `ended` is called when the process has closed its output.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=MAX_LINE_BYTES,
        env=get_default_environment(),
        start_new_session=True,
    )
    stdin, stdout = cast("tuple[StreamWriter, StreamReader]", (process.stdin, process.stdout))
    told, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, telling = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with told, received, sent, telling, asyncio.TaskGroup() as pipes:
            tasks = [
                pipes.create_task(_read(stdout, told, ended)),
                pipes.create_task(_write(stdin, telling)),
            ]
            try:
                yield received, sent
            finally:
                for task in tasks:
                    task.cancel()
    finally:
        await _end(process, stdin)


async def _read(
    stdout: StreamReader, told: MemoryObjectSendStream[Incoming], ended: Callable[[], None]
) -> None:
    """Pass messages on until the process ends, or writes a line that is longer than it may be."""
    async with told:
        # A line that is no message is as good as none: whoever waits for it has a limit.
        with suppress(ValueError, ConnectionError, *_GONE):
            while line := await stdout.readline():
                with suppress(ValidationError):
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await told.send(SessionMessage(message))
        ended()


async def _write(stdin: StreamWriter, telling: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with telling:
        with suppress(ConnectionError, *_GONE):
            async for each in telling:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()


async def _end(process: Process, stdin: StreamWriter) -> None:
    """Let the process see that its input has ended; what is left of its group is killed."""
    stdin.close()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(EXIT_S):
                await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
