"""`files_delete`: remove a file. Asks by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.policy.consent import Consent
from app.tools.builtin.files import WRITING, file_of, names_no_file
from app.tools.builtin.schema import PATH, closed_object
from app.tools.outcomes import answered
from app.tools.registry import RegisteredTool

if TYPE_CHECKING:
    from app.tools.ports import Workspace
    from app.turn.ports import ToolInvocation, ToolOutcome


async def _delete(call: ToolInvocation, workspace: Workspace) -> ToolOutcome:
    path = file_of(call)
    # A file that is gone already is no failure: the call may be the second run of itself.
    await workspace.delete(path)
    return answered({"path": path})


FILES_DELETE: Final = RegisteredTool(
    name="files_delete",
    title="Delete a file",
    description="Delete a file of the workspace.",
    parameters=closed_object({"path": PATH}),
    profile=WRITING,
    body=_delete,
    idempotent=True,
    consent=Consent.ASK,
    denies=names_no_file,
)
