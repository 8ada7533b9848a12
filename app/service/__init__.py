"""Use cases, the run driver, subscriptions and the supervisor that owns every task.

It depends on ports; `app.main` chooses the adapters. No FastAPI, no SQL and no adapter is
imported here. A package holds a noun, its docstring says what is where in it, and `use_cases` is
what callers may do with it. Where to look:

- what all of it rests on: `ports`, `clock`, `caller`, `requests`, `refusals`, `reach`,
  `members` of what people send, and `statements` for what the service signs itself, with a
  `fresh_key` if need be
- who gets in: `access`; what people sign with: `keys`
- what is run: `agents`, with the tools and MCP servers they name
- one run: `runs` creates it, `driving` drives it a turn at a time, from what `replay` reads off
  the log and what `context` shows the model
- what people bring along: `artifacts` and `skills`
- what people are asked: `approvals` and `questions`; what they agreed to beforehand: `grants`
- what readers get: `streams`
"""
