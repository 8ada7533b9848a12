"""`artifact_read`: the text of an artifact, with the tag of what made it (run-context.md 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.runctx.mime import is_text
from app.tools.builtin.files import READING
from app.tools.builtin.schema import closed_object
from app.tools.outcomes import TOOL_FAILED, answered, failed
from app.tools.registry import RegisteredTool

if TYPE_CHECKING:
    from app.tools.ports import Workspace
    from app.turn.ports import ToolInvocation, ToolOutcome

# What is longer than a result may be would be cut, and kept as an artifact once more.
SHOWN_BYTES: Final = 48 * 1024


async def _read(call: ToolInvocation, workspace: Workspace) -> ToolOutcome:
    artifact_id = call.args["artifact_id"]
    found = await workspace.artifact(artifact_id)
    if found is None:
        return failed(TOOL_FAILED, f"this conversation has no artifact {artifact_id!r}, or no more")
    artifact, content = found
    if not is_text(content):
        return failed(TOOL_FAILED, f"artifact {artifact_id!r} is not text")
    text = content[:SHOWN_BYTES].decode(errors="ignore")
    if len(content) > SHOWN_BYTES:
        text += f"\n[cut: {len(content)} bytes in all]"
    return answered({"mime": artifact.mime, "text": text}, trust=artifact.trust)


ARTIFACT_READ: Final = RegisteredTool(
    name="artifact_read",
    title="Read an artifact",
    description="Read the text of an artifact of this conversation, by its id.",
    parameters=closed_object({"artifact_id": {"type": "string", "maxLength": 100}}),
    profile=READING,
    body=_read,
)
