"""One model call: dialling with bounded retries, and reading the stream as it comes.

Only the dial, up to the first item, is ever retried, so no text is sent twice. Reading runs once
per token: an item is folded into its neighbour and shown to readers, whose slowness slows the
reading of the provider. The reply is assembled at the end (`reply`).
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.engine.streaming.items import FinalItem, ReasoningDeltaItem, TextItem, UnknownItem
from app.log.runs import StepStarted
from app.turn.model.retry import retry_wait_s
from app.turn.ports import FailureKind, ProviderError
from app.turn.state.context import TurnFailed
from app.turn.stream import ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from app.engine.streaming.items import StreamItem
    from app.turn.ports import ModelRequest
    from app.turn.state.context import TurnCtx

_UNFINISHED = "the stream ended without a terminal record"
_SEARCHED = "web_search_call"


@dataclass(frozen=True, slots=True)
class Collected:
    """The items of one complete stream, neighbours folded; the last is the terminal record."""

    items: tuple[StreamItem, ...]
    final: FinalItem
    is_grounded: bool


class BrokenStream(Exception):
    """The stream broke after its first item; `items` are what had arrived."""

    def __init__(self, error: ProviderError, items: tuple[StreamItem, ...]) -> None:
        super().__init__(error.message)
        self.error = error
        self.items = items


class Folding:
    """Gathers the items of a stream. Pieces of one text, or of one thought, become one item."""

    def __init__(self) -> None:
        self._items: list[StreamItem] = []
        self._first: TextItem | ReasoningDeltaItem | None = None
        self._pieces: list[str] = []
        self.is_grounded = False

    def text(self, item: TextItem) -> None:
        """Add a piece of text."""
        if not isinstance(self._first, TextItem):
            self._open(item)
        self._pieces.append(item.text)

    def thought(self, item: ReasoningDeltaItem) -> None:
        """Add a piece of reasoning."""
        first = self._first
        if not isinstance(first, ReasoningDeltaItem) or (
            (first.correlator, first.provider_id) != (item.correlator, item.provider_id)
        ):
            self._open(item)
        self._pieces.append(item.text)

    def other(self, item: StreamItem) -> None:
        """Add any other item."""
        self._close()
        self._items.append(item)
        if isinstance(item, UnknownItem) and isinstance(item.payload, dict):
            self.is_grounded = self.is_grounded or item.payload.get("type") == _SEARCHED

    def items(self) -> tuple[StreamItem, ...]:
        """Everything so far."""
        self._close()
        return tuple(self._items)

    def _open(self, first: TextItem | ReasoningDeltaItem) -> None:
        self._close()
        self._first = first

    def _close(self) -> None:
        if self._first is not None:
            whole = self._first.model_copy(update={"text": "".join(self._pieces)})
            self._items.append(whole)
            self._first, self._pieces = None, []


async def dial(ctx: TurnCtx, request: ModelRequest, *, first_attempt: int) -> Collected:
    """Ask the model. Raises TurnFailed when no dial gets through, BrokenStream when one breaks."""
    failures = 0
    while True:
        attempt = first_attempt + failures
        await _announce(ctx, request, attempt)
        items = ctx.provider.stream(replace(request, dial=attempt - 1))
        try:
            return await _read(ctx, items)
        except ProviderError as error:
            wait_s = retry_wait_s(error, failures, ctx.clock.jitter())
            if wait_s is None:
                raise TurnFailed(error.kind, error.message) from error
        await ctx.clock.sleep(wait_s)
        failures += 1


async def _announce(ctx: TurnCtx, request: ModelRequest, attempt: int) -> None:
    ctx.attempt = attempt
    ctx.state(
        StepStarted(
            attempt=attempt,
            granted=tuple(sorted(ctx.granted)),
            tainted=ctx.tainted,
            native_search=request.web_search,
        ),
        trust=ctx.specs.trust,
    )
    await ctx.flush()


async def _read(ctx: TurnCtx, stream: AsyncGenerator[StreamItem, None]) -> Collected:
    """Read a stream to its terminal record. Raises ProviderError only before the first item."""
    folding = Folding()
    async with aclosing(stream):
        try:
            final = await _fold(ctx, stream, folding)
        except ProviderError as error:
            items = folding.items()
            if not items:
                raise
            raise BrokenStream(error, items) from error
    return Collected(folding.items(), final, folding.is_grounded)


async def _fold(
    ctx: TurnCtx, stream: AsyncGenerator[StreamItem, None], folding: Folding
) -> FinalItem:
    send = None if ctx.options.stream_tx is None else ctx.options.stream_tx.send
    # An answer that has a form is shown when it is known to have it.
    say = send if ctx.output is None else None
    async for item in stream:
        match item:
            case TextItem():
                folding.text(item)
                if say is not None:
                    await say(TextDelta(item.text))
            case ReasoningDeltaItem():
                folding.thought(item)
                if send is not None:
                    await send(ReasoningDelta(item.text))
            case FinalItem():
                folding.other(item)
                return item
            case _:
                folding.other(item)
    raise ProviderError(FailureKind.OTHER, _UNFINISHED)
