"""MCP servers as tools (service.md 3): connections, what is believed of a listing, and calls.

- `reach`: how far a server may be, and how long it may be gone
- `stdio`: the transport over a process of the operator's choosing
- `http`: the transport over addresses that were checked and pinned
- `session`: one open conversation with a server; all that needs the `mcp` library
- `late`: what it answers to a call that was cancelled
- `connections`: the connections of a process, each held by a task of its owner
- `vetting`: which of the tools that a server lists can be offered
- `references`: whether a schema can be evaluated in bounded time
- `results`: what a server answered, as the model sees it
- `offered`: the tools of a server, as the registry has them

The library takes longer to import than all the rest, so `connections` imports `session` when the
first server is reached, in a thread.
"""
