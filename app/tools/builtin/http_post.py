"""`http_post`: send a text to a web address. Asks by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.policy.consent import Consent
from app.policy.profile import Origin, ToolProfile
from app.tools.builtin.schema import URL, closed_object
from app.tools.http import outcome_of
from app.tools.registry import RegisteredTool

if TYPE_CHECKING:
    from app.tools.http import OutboundHttp
    from app.tools.ports import Workspace
    from app.turn.ports import ToolInvocation, ToolOutcome

_DEFAULT_TYPE: Final = "application/json"
_CONTENT_TYPE: Final = {
    "type": "string",
    "pattern": r"^[!-~]([ -~]{0,198}[!-~])?$",
    "description": f"The media type of the body; {_DEFAULT_TYPE} if absent",
}


def http_post(http: OutboundHttp) -> RegisteredTool:
    """The tool, posting through `http`; the receiver can tell a repeated call by its key."""

    async def post(call: ToolInvocation, _workspace: Workspace) -> ToolOutcome:
        headers = {
            "Content-Type": call.args.get("content_type", _DEFAULT_TYPE),
            "Idempotency-Key": call.idempotency_key,
        }
        return await outcome_of(http.post(call.args["url"], call.args["body"].encode(), headers))

    return RegisteredTool(
        name="http_post",
        title="Post to a web address",
        description="Send a text to a URL with POST and return status, content type and body.",
        parameters=closed_object(
            {"url": URL, "body": {"type": "string"}}, {"content_type": _CONTENT_TYPE}
        ),
        profile=ToolProfile(Origin.FETCHER, destructive=True, open_world=True),
        body=post,
        consent=Consent.ASK,
    )
