"""The stdio transport: an operator's command, one JSON-RPC message a line, every line bounded.

What the process writes to its standard error is discarded: it may quote what a call was about. The
process leads a group of its own, and the whole group ends with the connection.

A line that is too long is passed over: whoever waits for the answer that it is gets an error, and
what is under way beside it goes on. One that has no end either ends the connection.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, cast

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Callable, Sequence

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    Incoming = SessionMessage | Exception
    Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]

MAX_LINE_BYTES: Final = 4 * 1024 * 1024
MAX_PASSED_OVER_BYTES: Final = 64 * 1024 * 1024
EXIT_S: Final = 1.0
# Whom an answer is for stands before the answer itself, by whichever library it was written.
_IDENT: Final = re.compile(rb'"id" *: *([0-9]{1,18})\b')
_HEAD_BYTES: Final = 200
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
            while line := await _line(stdout):
                with suppress(ValidationError):
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await told.send(SessionMessage(message))
        ended()


async def _line(stdout: StreamReader) -> bytes:
    """The next line, `b""` at the end; in place of one that is too long the error that it makes.

    Raises ValueError for one that answers nobody, or has no end.
    """
    try:
        return await stdout.readuntil()
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        head = await stdout.readexactly(error.consumed)
    asked = _IDENT.search(head, 0, _HEAD_BYTES)
    if asked is None:
        raise ValueError("a line that is too long, and answers nobody")
    await _pass_over(stdout)
    fault = ErrorData(code=PARSE_ERROR, message="the answer is longer than it may be")
    return JSONRPCError(jsonrpc="2.0", id=int(asked[1]), error=fault).model_dump_json().encode()


async def _pass_over(stdout: StreamReader) -> None:
    """Read to the end of the line. Raises ValueError if it has none within bounds."""
    passed = 0
    while passed < MAX_PASSED_OVER_BYTES:
        try:
            await stdout.readuntil()
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError as error:
            passed += len(await stdout.readexactly(error.consumed))
        else:
            return
    raise ValueError("a line without an end")


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
