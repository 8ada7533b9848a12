"""Rows as they are read, and the few that requests write: the SQL, and the records made of them.

- `queries`: the SQL of reads
- `approval_queries`: the same of approvals, with what belongs to them
- `records`: from rows to records
- `ready`: which run of a conversation is to be driven next
- `grants`: remembered grants, SQL and records
- `mcp_servers`: MCP servers, SQL and records
- `idempotency`: requests that are sent again, and their first answers
"""
