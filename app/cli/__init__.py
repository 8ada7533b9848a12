"""The command line: `commands` says what there is, and a file beside it does each.

There are `turngate serve`, `worker`, `migrate`, `rebuild`, `demo`, `token`, `keys`, `audit`,
`openapi` and `bench`. What a command needs is imported when it runs, so that printing a token takes
no web server. Nothing here decides anything.
"""

from __future__ import annotations

from app.cli.commands import app

__all__ = ["app"]
