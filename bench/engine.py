"""What the engine itself costs: turns in memory, beside a bare loop over the same stream.

No database, no socket, no commit: the provider has its items ready and the journal keeps nothing,
so what is left is `run_turn`, the AgentRun and the gate. What counts is the processor time of the
fastest of several turns, since whatever else the machine does can only add.
"""

from __future__ import annotations

from contextlib import aclosing
from time import process_time
from typing import TYPE_CHECKING, Final, Literal

from app.engine.agent_run import AgentRun
from app.engine.json.text import FrozenObject
from app.engine.messages import AssistantMessage, AssistantText, ToolCall, UserMessage, UserText
from app.engine.streaming.items import FinalItem, TextItem, ToolCallItem
from app.engine.usage import FinishReason, Usage
from app.service.clock import SystemClock
from app.tools.builtin.clock_now import clock_now
from app.tools.executors.executor import ScopedExecutor
from app.tools.registry import ToolRegistry
from app.turn.agent import BoundAgent
from app.turn.options import RunTurnOptions
from app.turn.ports import ModelRequest
from app.turn.run import run_turn
from app.turn.stream import TextDelta
from app.turn.transcript import Transcript
from bench.report import Measure

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Sequence

    from app.engine.messages import Message
    from app.engine.streaming.items import StreamItem
    from app.log.records import FileEntry
    from app.policy.taint import Trust
    from app.turn.ports import Fact
    from app.turn.stream import TurnStreamEvent
    from bench.report import Report

    Spent = Callable[["_Ready", Sequence[Message]], Awaitable[float]]

TOKENS: Final = (500, 2000)
STEPS: Final = (4, 24)
HISTORIES: Final = (20, 100, 500)
REPEATS: Final = 7
_CLOCK: Final = SystemClock()
_NOTHING: Final = ModelRequest(model="ready", instructions="", messages=())
_USAGE: Final = Usage(input_tokens=9, output_tokens=9, total_tokens=18)


class _Ready:
    """A provider whose replies are ready; the last is said again and again."""

    def __init__(self, replies: Sequence[Sequence[StreamItem]]) -> None:
        self._replies = list(replies)
        self._next = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        reply = self._replies[min(self._next, len(self._replies) - 1)]
        self._next += 1
        for item in reply:
            yield item


class _NoJournal:
    """Takes every fact and keeps none."""

    def message_id(self) -> str:
        return "msg"

    async def record(self, *facts: Fact) -> None:
        return None

    def conclude(self, *facts: Fact) -> None:
        return None

    async def keep_result(self, call_id: str, text: str, *, trust: Trust) -> str | None:
        return None


class _NoFiles:
    """An empty workspace that stays empty."""

    async def list(self, place: str = ".") -> Sequence[FileEntry]:
        return ()

    async def read(self, path: str) -> tuple[bytes, Trust] | None:
        return None

    async def write(self, path: str, content: bytes, trust: Trust) -> None:
        return None

    async def delete(self, path: str) -> bool:
        return False

    async def change(
        self, written: AsyncIterable[tuple[str, bytes]], deleted: Sequence[str], trust: Trust
    ) -> None:
        return None

    async def artifact(self, artifact_id: str) -> None:
        return None


class _NoReader:
    """Takes every event of the stream at once."""

    async def send(self, event: TurnStreamEvent) -> None:
        return None


async def measure(report: Report) -> None:
    """Add the engine's own time a token, and a step behind histories of several lengths."""
    report.add(
        Measure(
            "engine, a streamed token",
            "us",
            await _per_token(_turn_ms),
            await _per_token(_bare_ms),
            "a loop over the same items",
            "<= 15 us",
        )
    )
    shortest = 0.0
    for length in HISTORIES:
        spent = await _per_step(length)
        shortest = shortest or spent
        report.add(
            Measure(
                f"engine, a step with {length} messages before it",
                "ms",
                spent,
                shortest,
                f"with {HISTORIES[0]} messages",
                "<= 1 ms with 100" if length == 100 else "",
            )
        )


async def _per_token(spent_ms: Spent) -> float:
    """Microseconds that one more token costs: two lengths, so that the turn around it cancels."""
    few, many = [await _fastest(spent_ms, [_text(count)]) for count in TOKENS]
    return (many - few) * 1000 / (TOKENS[1] - TOKENS[0])


async def _per_step(length: int) -> float:
    """Milliseconds that one more step costs, with so many messages before the run."""
    few, many = [
        await _fastest(_turn_ms, [*[_call()] * steps, _text(1)], _history(length))
        for steps in STEPS
    ]
    return (many - few) / (STEPS[1] - STEPS[0])


async def _fastest(
    spent_ms: Spent, replies: Sequence[Sequence[StreamItem]], history: Sequence[Message] = ()
) -> float:
    return min([await spent_ms(_Ready(replies), history) for _ in range(REPEATS)])


async def _turn_ms(provider: _Ready, history: Sequence[Message]) -> float:
    """Milliseconds of one whole turn."""
    run = AgentRun.new("do it").with_history(history)
    options = RunTurnOptions(max_steps=100, stream_tx=_NoReader(), clock=_CLOCK)
    start = process_time()
    result = await run_turn(
        provider,
        _executor(),
        BoundAgent(name="bench", model="ready"),
        Transcript(run=run, turn_number=1, user_text="do it"),
        options,
        run_id="run_bench",
        turn_id="turn_bench",
        journal=_NoJournal(),
    )
    spent = (process_time() - start) * 1000
    if result.failure is not None:
        raise AssertionError(result.failure)
    return spent


async def _bare_ms(provider: _Ready, history: Sequence[Message]) -> float:
    """Milliseconds of a loop that gathers the text of one reply and does nothing else."""
    reader, pieces = _NoReader(), []
    start = process_time()
    async with aclosing(provider.stream(_NOTHING)) as stream:
        async for item in stream:
            if isinstance(item, TextItem):
                pieces.append(item.text)
                await reader.send(TextDelta(item.text))
    "".join(pieces)
    return (process_time() - start) * 1000


def _text(count: int) -> list[StreamItem]:
    """A reply of so many tokens."""
    return [*(TextItem(text="token ") for _ in range(count)), _final("stop")]


def _call() -> list[StreamItem]:
    """A reply that calls a tool which asks nobody."""
    call = ToolCall.from_wire("c", "clock_now", "{}", turn=1, position=0)
    call = call.model_copy(update={"additional_params": FrozenObject({"arguments_text": "{}"})})
    return [ToolCallItem(tool_call=call, internal_call_id="c"), _final("tool_calls")]


def _final(stop: Literal["stop", "tool_calls"]) -> FinalItem:
    return FinalItem(usage=_USAGE, finish_reason=FinishReason(kind=stop), raw={})


def _history(length: int) -> list[Message]:
    """So many messages of earlier runs, in turn a person's and the model's."""
    said = UserMessage(content=(UserText(text="a question of a few words"),))
    answered = AssistantMessage(content=(AssistantText(text="an answer of some more words"),))
    return [answered if at % 2 else said for at in range(length)]


def _executor() -> ScopedExecutor:
    registry = ToolRegistry([clock_now(_CLOCK)])
    return ScopedExecutor(registry, ["clock_now"], consent=(), workspace=_NoFiles())
