"""The skill tools of no run read nothing (run-context.md 6)."""

from __future__ import annotations

from typing import Any

from app.tools.builtin import builtin_tools
from app.tools.executors.executor import ScopedExecutor
from app.tools.http import OutboundHttp
from app.tools.registry import ToolRegistry
from app.tools.sandbox.workspace import ConversationWorkspace
from tests.tools.played import FilesInMemory, FixedClock, invocation, result_of

TOOLS = ["skill_search", "skill_get", "skill_list"]


async def test_outside_of_a_run_no_skill_can_be_read() -> None:
    clock = FixedClock()
    executor = ScopedExecutor(
        ToolRegistry(builtin_tools(clock, OutboundHttp())),
        TOOLS,
        consent=(),
        workspace=ConversationWorkspace(FilesInMemory(), "conv_1", clock=clock),
    )
    calls: tuple[dict[str, Any], ...] = ({"query": "x"}, {"names": ["x"]}, {})
    for name, args in zip(TOOLS, calls, strict=True):
        outcome = await executor.execute(invocation(name, args))
        assert result_of(outcome) == {"code": "tool_failed", "error": "no skills can be read here"}
    assert [executor.needs_approval(name) for name in TOOLS] == [False] * 3
