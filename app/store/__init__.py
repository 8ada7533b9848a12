"""Postgres: tables, event log, projections, leases and wake-ups. The only SQL and the only commit.

It decides nothing: what is written was decided in `service`. A package holds a noun, and its
docstring says what is where in it. Where to look:

- the door: `open` puts everything together; `database` is the port of that name, and behind it are
  `sessions` for reads, `transactions` for the writes of a request, `leases` for those of a run
- an append: `log`, and what it does to the rows that people read: `projections`
- what is read, and what requests write beside the log: `rows`
- what no event rebuilds: `keys`, `skills`, `artifacts`, `memory`
- between processes: `dispatch`
- the database: `server` is the way to it, `schema` what is in it
- text: `texts` is how it is kept, `tool_search` how that of tools is searched
"""
