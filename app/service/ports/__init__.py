"""What the service needs of the rest of the house, in its own words, by noun.

`app.store`, `app.tools` and `app.providers` fulfil these ports, and `app.main` puts them together.

- `database`: the door: Session and Transaction, made of the reads and writes of the nouns
- `agents`: agents and MCP servers
- `skills`: skills, and the tools that read them
- `runs`: conversations and runs
- `approvals`: approvals and questions
- `events`: the log
- `artifacts`: files of a conversation
- `memory`: what is remembered, and who writes summaries
- `keys`: approver keys, passkeys, the service's own keys, revoked tokens
- `grants`: remembered grants
- `idempotency`: requests that are sent again
- `leases`: claims on conversations, and appends under a claim
- `queue`: runs that wait, things that are overdue
- `signals`: hints between processes
- `tools`: the toolbox, and the way to MCP servers
- `providers`: models
"""
