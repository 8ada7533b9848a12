"""`files_list`: the files of the workspace, or of one folder of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.tools.builtin.files import READING, names_no_place
from app.tools.builtin.schema import PATH, closed_object
from app.tools.outcomes import answered
from app.tools.paths import ROOT, normalised
from app.tools.registry import RegisteredTool

if TYPE_CHECKING:
    from app.tools.ports import Workspace
    from app.turn.ports import ToolInvocation, ToolOutcome


async def _list(call: ToolInvocation, workspace: Workspace) -> ToolOutcome:
    place = normalised(call.args.get("path", ""))
    found = [
        {"path": entry.path, "size_bytes": entry.size_bytes}
        for entry in await workspace.list()
        if place in {ROOT, entry.path} or entry.path.startswith(f"{place}/")
    ]
    return answered({"files": found})


FILES_LIST: Final = RegisteredTool(
    name="files_list",
    title="List files",
    description="List the files of the workspace, or of the folder at `path`, with their sizes.",
    parameters=closed_object({}, {"path": PATH}),
    profile=READING,
    body=_list,
    denies=names_no_place,
)
