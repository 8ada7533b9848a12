"""`files_list`: the files of the workspace, or of one folder of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.policy.taint import Trust
from app.tools.builtin.files import READING, is_relaxed, names_no_place
from app.tools.builtin.schema import PATH, closed_object
from app.tools.outcomes import answered
from app.tools.paths import normalised
from app.tools.registry import RegisteredTool

if TYPE_CHECKING:
    from app.tools.ports import Workspace
    from app.turn.ports import ToolInvocation, ToolOutcome


async def _list(call: ToolInvocation, workspace: Workspace) -> ToolOutcome:
    place = normalised(call.args.get("path", ""), relaxed=is_relaxed(call))
    found = [
        {"path": entry.path, "size_bytes": entry.size_bytes}
        for entry in await workspace.list(place)
    ]
    # Nobody knows who chose the names of files that lie outside.
    trust = Trust.QUARANTINED_CONTENT if place.startswith("/") else Trust.UNSPECIFIED
    return answered({"files": found}, trust=trust)


FILES_LIST: Final = RegisteredTool(
    name="files_list",
    title="List files",
    description="List the files of the workspace, or of the folder at `path`, with their sizes.",
    parameters=closed_object({}, {"path": PATH}),
    profile=READING,
    body=_list,
    denies=names_no_place,
)
