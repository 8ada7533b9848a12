"""`clock_now`: the time, from the injected clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from app.policy.profile import Origin, ToolProfile
from app.tools.builtin.schema import closed_object
from app.tools.outcomes import answered
from app.tools.registry import RegisteredTool

if TYPE_CHECKING:
    from app.tools.ports import Workspace
    from app.turn.ports import Clock, ToolInvocation, ToolOutcome


def clock_now(clock: Clock) -> RegisteredTool:
    """The tool, telling the time of `clock`."""

    async def tell(_call: ToolInvocation, _workspace: Workspace) -> ToolOutcome:
        now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
        return answered(
            {"now": now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03}Z"}
        )

    return RegisteredTool(
        name="clock_now",
        title="Tell the time",
        description="The current date and time in UTC.",
        parameters=closed_object({}),
        profile=ToolProfile(
            Origin.LOCAL_SANDBOX, read_only=True, destructive=False, open_world=False
        ),
        body=tell,
    )
