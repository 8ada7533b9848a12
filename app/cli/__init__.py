"""The command line: what there is to do, each in a file. Nothing here decides anything.

There are `turngate serve`, `worker`, `migrate`, `rebuild`, `demo`, `token`, `keys`, `audit`,
`openapi` and `bench`. What a command needs is imported when it runs, so that printing a token takes
no web server. Where to look:

- the door: `commands` says what there is, `configuration` reads the settings for it
- `turngate serve`: `serving`, with `sockets`, `protocols` and the `greeting`; `turngate worker`:
  `working`; both hear `signals` and write `logs`
- `turngate rebuild`: `rebuilding` the projections, `remembering` memory
- `turngate token`: `issuing`; `turngate keys`: `rotating`
- `turngate audit`: `auditing`, whose `verdicts` are shown as `visible` text
- `turngate demo`: `demo`
"""

from __future__ import annotations

from app.cli.commands import app

__all__ = ["app"]
