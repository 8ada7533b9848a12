"""Tools: what there is, what an agent has of it, and the ways to the outside. No approvals.

Where to look:

- the door: `toolbox` puts an agent's tools together on one workspace; `ports` is what the room
  needs of the house
- what there is: `registry` says what the gate must know of a tool; the tools themselves are in
  `builtin`, one a file, and in `mcp`, those of servers; `outcomes` are their words
- what an agent has: `executor` is scoped to its tools; around it, where the agent says so, `hatch`
  offers fewer and finds the rest, and `dispatch_rules` looks at single calls. Each is a
  `forwarding` executor; `patterns` bounds what people ask to be matched
- files: `workspace` is a conversation's, `paths` what may be named in it; `sandbox_roots` opens
  folders of the operator's for a call that was allowed to, and `disk` walks them
- skills: `skills` binds the tools that read them to those of a run
- commands: `shell` is their place, `bubblewrap` the sandbox around them
- the outside: `http` makes requests, `address` says which addresses they may reach
"""
