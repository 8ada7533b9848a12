"""What an agent has of the tools, and what lies around a call where the agent says so.

- `executor`: scoped to an agent's tools
- `forwarding`: an executor that asks another one
- `hatch`: offers fewer tools, and finds the rest
- `dispatch_rules`: looks at single calls and their results
- `patterns`: what people ask to be replaced in a result
"""
