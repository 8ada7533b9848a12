"""Agents: their documents, and what a run makes of one.

- `use_cases`: saved whole, edited safely, deleted
- `spec`: the document: members, defaults, digest
- `check`: whether a document holds together
- `snapshot`: what a run keeps of its agent
- `binding`: a run bound to the stricter of its snapshot and the agent as it is now
- `call_rules`: the document's rules as the tools take them
- `delegates`: the workers of a bound agent, and who must agree to what they do
- `tool_listing`: the tools there are to name
- `mcp_servers`: servers that offer some: registered, asked, removed
- `mcp_spec`: the registration of one
- `mcp_pins`: what is pinned of one
"""
