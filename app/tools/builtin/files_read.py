"""`files_read`: the text of a file, with the tag of what was written into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.tools.builtin.files import READING, file_of, names_no_file
from app.tools.builtin.schema import PATH, closed_object
from app.tools.outcomes import TOOL_FAILED, answered, failed
from app.tools.registry import RegisteredTool

if TYPE_CHECKING:
    from app.tools.ports import Workspace
    from app.turn.ports import ToolInvocation, ToolOutcome


async def _read(call: ToolInvocation, workspace: Workspace) -> ToolOutcome:
    path = file_of(call)
    file = await workspace.read(path)
    if file is None:
        return failed(TOOL_FAILED, f"there is no file {path!r}")
    content, trust = file
    text = content.decode(errors="replace")
    return answered({"path": path, "content": text}, trust=trust)


FILES_READ: Final = RegisteredTool(
    name="files_read",
    title="Read a file",
    description="Read a text file of the workspace.",
    parameters=closed_object({"path": PATH}),
    profile=READING,
    body=_read,
    denies=names_no_file,
)
