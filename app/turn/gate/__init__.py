"""One call of a tool, and whether it runs. Nothing is executed here.

- `classify`: the table, each call taking the first row that fits
- `gating`: the rows that policy decides
- `decided`: the rows of calls that somebody decided, or that were started before
- `asking`: the question to a person, and the refusal where nobody is present
- `questions`: the rows of a model that asks people
- `delegation`: the rows of a model that delegates
- `verdict`: what any row makes of a call
"""
