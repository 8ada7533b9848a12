"""The command line: `turngate serve`, `worker`, `migrate`, `rebuild`, `demo`, `bench`, `token`,
`audit`, `openapi`.

`commands` says what there is; a file beside it does each. What a command needs is imported when it
runs, so that printing a token takes no web server. Nothing here decides anything.
"""

from __future__ import annotations

from app.cli.commands import app

__all__ = ["app"]
