"""Workers to delegate to, in memory.

researcher = worker("researcher", [reply(said("42"))])
world = World([reply(delegated("d1", "researcher"))], ...)
await world.turn(delegate_descriptors=[researcher.descriptor])
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app.turn.options import DelegateDescriptor
from app.turn.texts import DELEGATE_TO
from tests.support.turn.provider import PreparedProvider, called
from tests.support.turn.tools import MemoryTools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.streaming.items import StreamItem, ToolCallItem
    from app.turn.ports import WorkerScope
    from tests.support.turn.tools import MemoryTool


@dataclass(slots=True)
class Worker:
    """An agent to delegate to: what it is, what it was asked and what it ran."""

    descriptor: DelegateDescriptor
    provider: PreparedProvider
    tools: MemoryTools


def worker(
    name: str,
    replies: Sequence[Sequence[StreamItem | Exception]],
    *tools: MemoryTool,
    **changed: Any,
) -> Worker:
    """A worker that plays these replies, over all delegations to it."""
    provider, executor = PreparedProvider(replies), MemoryTools(*tools)
    descriptor = DelegateDescriptor(
        agent_id=name,
        instructions=f"You are {name}.",
        provider=provider,
        provider_name="prepared",
        model="small",
        tools=executor,
        tool_specs=tuple(executor.specs()),
    )
    return Worker(replace(descriptor, **changed), provider, executor)


def delegated(
    wire_id: str, target: str, task: str = "look", *, position: int = 0, **more: str
) -> ToolCallItem:
    """A call that delegates."""
    args = {"target_agent_id": target, "task": task, **more}
    return called(wire_id, DELEGATE_TO, args, position=position)


class SharedInMemory:
    """The way of files into workspaces; `asked` are the scopes, and every path is copied."""

    def __init__(self) -> None:
        self.asked: list[WorkerScope] = []

    async def copy_in(self, scope: WorkerScope) -> Sequence[str]:
        self.asked.append(scope)
        return scope.share_in
