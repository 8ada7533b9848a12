"""`files_write`: create or replace a file, tagged as the context that wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.policy.taint import Trust
from app.tools.builtin.files import WRITING, file_of, names_no_file
from app.tools.builtin.schema import PATH, closed_object
from app.tools.outcomes import answered
from app.tools.registry import RegisteredTool

if TYPE_CHECKING:
    from app.tools.ports import Workspace
    from app.turn.ports import ToolInvocation, ToolOutcome


async def _write(call: ToolInvocation, workspace: Workspace) -> ToolOutcome:
    path = file_of(call)
    content: bytes = call.args["content"].encode()
    trust = Trust.QUARANTINED_CONTENT if call.tainted else Trust.UNSPECIFIED
    await workspace.write(path, content, trust)
    return answered({"path": path, "size_bytes": len(content)})


FILES_WRITE: Final = RegisteredTool(
    name="files_write",
    title="Write a file",
    description="Create a text file in the workspace, or replace the one that is there.",
    parameters=closed_object({"path": PATH, "content": {"type": "string"}}),
    profile=WRITING,
    body=_write,
    idempotent=True,
    denies=names_no_file,
)
