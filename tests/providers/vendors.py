"""What the tests of vendors' models share: a directory that asks a local server, and a request."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app.engine.messages import UserMessage
from app.providers.directory import ProviderDirectory
from app.providers.endpoint import Endpoint, Timeouts
from app.turn.ports import FailureKind, ModelRequest, ToolSpec
from tests.providers.played import NotedClock, reply
from tests.support.loopback.model_servers import model_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.turn.ports import Clock, Provider
    from tests.providers.played import Reply
    from tests.support.loopback.model_servers import Answer, ModelServer

CHAT = "compatible:local/m"
CLAUDE = "anthropic:claude-x"

SPEC = ToolSpec(
    name="look_up",
    description="Look something up.",
    parameters={
        "type": "object",
        "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["q"],
    },
    title="Look up",
    definition_digest="0" * 64,
)
REQUEST = ModelRequest(
    model="m",
    instructions="Be brief.",
    messages=(UserMessage.of_text("hi"),),
    tools=(SPEC,),
)


@asynccontextmanager
async def asking(
    model: str, *answers: Answer, timeouts: Timeouts | None = None, clock: Clock | None = None
) -> AsyncIterator[tuple[Provider, ModelServer]]:
    """A provider whose server gives `answers`."""
    async with model_server(*answers) as server:
        vendors = {
            "openai": Endpoint("key-o", f"{server.url}/v1"),
            "anthropic": Endpoint("key-a", server.url),
            "google": Endpoint("key-g", server.url),
        }
        compatible = {"local": Endpoint("key-c", f"{server.url}/v1")}
        directory = ProviderDirectory(
            clock or NotedClock(), vendors=vendors, compatible=compatible, timeouts=timeouts
        )
        try:
            yield directory.provider(model), server
        finally:
            await directory.aclose()


async def ask(model: str, answer: Answer, **changes: Any) -> tuple[Reply, dict[str, Any]]:
    """One reply, and the body of the request for it. The server was asked exactly once."""
    async with asking(model, answer) as (provider, server):
        replied = await reply(provider, replace(REQUEST, **changes))
    assert len(server.asked) == 1
    return replied, server.asked[0].body


@dataclass(frozen=True)
class Failing:
    """An answer that is none, and how the port is told of it; `says` is what its message names."""

    id: str
    answer: Answer
    kind: str
    retry_after: float | None = None
    text: str = ""
    says: str = ""


async def is_told(model: str, case: Failing) -> None:
    """Ask once and hold the error against the case; no message quotes a body."""
    replied, _ = await ask(model, case.answer)
    assert replied.text == case.text
    assert replied.error is not None
    assert replied.error.kind is FailureKind(case.kind)
    assert replied.error.retry_after == case.retry_after
    assert "sk-123" not in str(replied.error)
    assert case.says in str(replied.error)
