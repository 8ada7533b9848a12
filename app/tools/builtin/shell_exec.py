"""`shell_exec`: a command on a copy of the workspace, whose changes are written back. Asks.

Whatever the command wrote carries the highest tag among what it could read: the context that wrote
the command, and every file that was copied (turn.md 5.5). Nothing is written back of a command that
was cancelled, ran out of time or outgrew its bounds: changes are kept as one act, or not at all.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from app.policy.capability import Capability
from app.policy.consent import Consent
from app.policy.profile import Origin, ToolProfile
from app.policy.taint import Trust, highest
from app.tools.builtin.schema import closed_object
from app.tools.outcomes import TOOL_FAILED, answered, failed
from app.tools.registry import RegisteredTool
from app.tools.sandbox.shell import ShellFailed, ShellPlace

if TYPE_CHECKING:
    from app.tools.ports import Workspace
    from app.tools.sandbox.shell import Changes, ShellRunner
    from app.turn.ports import ToolInvocation, ToolOutcome

_NAMED_UNKEPT: Final = 5


def shell_exec(runner: ShellRunner) -> RegisteredTool:
    """The tool, running its commands with `runner`; not viable where that cannot run any."""

    async def execute(call: ToolInvocation, workspace: Workspace) -> ToolOutcome:
        place = ShellPlace.made(runner.owner)
        try:
            for old in await asyncio.to_thread(place.old_places):
                if old.take():
                    await old.remove()
            trust = highest((await _copied(workspace, place), _trust_of(call)))
            await asyncio.to_thread(place.ready, call.args["command"])
            ran = await runner.run(place)
            unkept = await _written_back(workspace, place, trust)
        except ShellFailed as error:
            return failed(TOOL_FAILED, f"{error}; no change was kept")
        finally:
            await place.remove()
        return answered({"exit_code": ran.exit_code, "output": ran.output + unkept})

    return RegisteredTool(
        name="shell_exec",
        title="Run a command",
        description=(
            "Run a command with sh in the workspace, without network, for at most 60 seconds. "
            "Returns its exit code and what it printed; changed files are kept."
        ),
        parameters=closed_object({"command": {"type": "string", "minLength": 1}}),
        profile=ToolProfile(
            Origin.LOCAL_SANDBOX,
            destructive=True,
            open_world=True,
            extra=frozenset({Capability.ARBITRARY_EGRESS}),
        ),
        body=execute,
        consent=Consent.ASK,
        why_not=runner.why_not,
    )


async def _copied(workspace: Workspace, place: ShellPlace) -> Trust:
    """Copy every file; the highest tag among them."""
    tags = [Trust.UNSPECIFIED]
    for entry in await workspace.list():
        # A file that has just been deleted is simply not there.
        if (file := await workspace.read(entry.path)) is not None:
            content, trust = file
            tags.append(trust)
            await asyncio.to_thread(place.put, entry.path, content)
    return highest(tags)


def _trust_of(call: ToolInvocation) -> Trust:
    return Trust.QUARANTINED_CONTENT if call.tainted else Trust.UNSPECIFIED


async def _written_back(workspace: Workspace, place: ShellPlace, trust: Trust) -> str:
    """Keep what changed; what to say of files that cannot be kept."""
    changes = await asyncio.to_thread(place.changes)
    written = ((file.path, await asyncio.to_thread(place.read, file)) for file in changes.written)
    await workspace.change(written, changes.deleted, trust)
    return _told_of(changes)


def _told_of(changes: Changes) -> str:
    if not changes.unkept:
        return ""
    named = ", ".join(repr(path) for path in changes.unkept[:_NAMED_UNKEPT])
    return f"\n[{len(changes.unkept)} files could not be kept, such as {named}]"
