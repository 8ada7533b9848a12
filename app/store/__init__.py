"""Postgres: tables, event log, projections, leases and wake-ups. The only SQL and the only commit.

It decides nothing: what is written was decided in `service`. Where to look:

- the door: `open` puts everything together; `database`, `sessions`, `transactions`, `leases`,
  `queue`, `signals`, `holds`, `service_keys`, `revocations`, `workspace`, `artifacts`, `skills`
  and `tool_search` each fulfil a port
- a request that is sent again: `idempotency`
- an append: `numbering`, then `append`; `appender` groups those of all runs, `tails` knows where
  logs end, `changes` orders the writes, `kinds` is their SQL
- projections: `projections` says what an event does, by `projection_runs`, `projection_approvals`,
  `projection_grants` and `projection_fact`; `rebuild` makes them anew from the log
- memory: `memories` fulfils its port, with `memory` and, for summaries, `rolling_memory`, which
  `folding` writes; `memory_turns` and `memory_state` are their SQL, `missed_turns` what was not
  stored; by meaning: `recall`, over `vectors` where the database has pgvector
- bytes of artifacts: `bucket` says where they may lie outside of the database, `s3` speaks to it,
  `leftovers` sweeps there
- reads: `queries` and `approval_queries` are their SQL, `records` makes records of rows,
  `mcp_servers`, `passkeys` and `grants` have both of their own, `stored_logs` reads whole logs
- runs to be driven: `ready` says which is next, `wakes` enqueues it, `own_wakes` are those that
  do not leave the process
- the schema: `tables` with `tables_log`, `tables_runs`, `tables_access`, `tables_grants`,
  `tables_memory` and `table_base`, and `migrations`; `row_security` says whose rows a statement
  sees; `texts` is how text is kept
- the server: `whereabouts`, `connections`, `poolers`, and the embedded one in `embedded`,
  `embedded_host` and `embedded_keeper`; `private_file` keeps the keys of this machine
"""
