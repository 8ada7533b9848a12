"""The built-in tools, one a file; a new one is added to `builtin_tools` (service.md 3).

- `clock_now`: the time
- `files_list`: the files of the workspace
- `files_read`: the text of a file
- `files_write`: create or replace one
- `files_delete`: remove one
- `files`: what these share
- `artifact_read`: the text of an artifact
- `http_fetch`: read a web address
- `http_post`: send a text to one
- `shell_exec`: a command on a copy of the workspace
- `skill_search`: the skills that match a question
- `skill_get`: the text of skills
- `skill_list`: the skills of the run
- `schema`: schemas of arguments
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.tools.builtin.artifact_read import ARTIFACT_READ
from app.tools.builtin.clock_now import clock_now
from app.tools.builtin.files_delete import FILES_DELETE
from app.tools.builtin.files_list import FILES_LIST
from app.tools.builtin.files_read import FILES_READ
from app.tools.builtin.files_write import FILES_WRITE
from app.tools.builtin.http_fetch import http_fetch
from app.tools.builtin.http_post import http_post
from app.tools.builtin.shell_exec import shell_exec
from app.tools.builtin.skill_get import skill_get
from app.tools.builtin.skill_list import skill_list
from app.tools.builtin.skill_search import skill_search
from app.tools.sandbox.shell import NoShell

if TYPE_CHECKING:
    from app.runctx.skills.reader import RunSkills
    from app.tools.http import OutboundHttp
    from app.tools.registry import RegisteredTool
    from app.tools.sandbox.shell import ShellRunner
    from app.turn.ports import Clock

NO_SHELL: Final = NoShell("this process was given no sandbox")


def builtin_tools(
    clock: Clock, http: OutboundHttp, *, shell: ShellRunner = NO_SHELL
) -> tuple[RegisteredTool, ...]:
    """Every built-in tool of this version; without a runner no command can be run."""
    return (
        clock_now(clock),
        FILES_LIST,
        FILES_READ,
        FILES_WRITE,
        FILES_DELETE,
        ARTIFACT_READ,
        http_fetch(http),
        http_post(http),
        shell_exec(shell),
        *skill_tools(None),
    )


def skill_tools(skills: RunSkills | None) -> tuple[RegisteredTool, ...]:
    """The tools that read skills, bound to those of a run; of no run they read none."""
    return (skill_search(skills), skill_get(skills), skill_list(skills))
