"""Tools: what there is, what an agent has of it, and the ways to the outside. No approvals.

Where to look:

- the door: `toolbox` puts an agent's tools together on one workspace; `ports` is what the room
  needs of the house
- what there is: `registry` says what the gate must know of a tool; the tools themselves are in
  `builtin`, one a file, and in `mcp`, those of servers; `outcomes` are their words
- what an agent has: `executors`, each scoped to its tools
- skills: `skills` binds the tools that read them to those of a run
- where tools work: `sandbox` has the files of a conversation and a place for commands, `paths` what
  may be named in it
- the outside: `http` makes requests, `address` says which addresses they may reach
"""
