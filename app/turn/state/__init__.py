"""What the stages of one turn share, and what it has of a turn before it.

- `context`: all of it, with the facts that were stated so far
- `call`: one open call
- `ledger`: the decisions that are left, each to be used once
- `answers`: the answers of people to questions
- `specs`: the tools that the model is told of, pinned
- `taint`: whether the transcript holds untrusted content
"""
