"""`http_fetch`: read a web address. What comes back is what strangers wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.policy.profile import Origin, ToolProfile
from app.tools.builtin.schema import URL, closed_object
from app.tools.http import outcome_of
from app.tools.registry import RegisteredTool

if TYPE_CHECKING:
    from app.tools.http import OutboundHttp
    from app.tools.ports import Workspace
    from app.turn.ports import ToolInvocation, ToolOutcome


def http_fetch(http: OutboundHttp) -> RegisteredTool:
    """The tool, fetching through `http`."""

    async def fetch(call: ToolInvocation, _workspace: Workspace) -> ToolOutcome:
        return await outcome_of(http.get(call.args["url"]))

    return RegisteredTool(
        name="http_fetch",
        title="Fetch a web address",
        description="Fetch a URL with GET and return its status, content type and body as text.",
        parameters=closed_object({"url": URL}),
        profile=ToolProfile(Origin.FETCHER, read_only=True, destructive=False, open_world=True),
        body=fetch,
        idempotent=True,
    )
