"""Tools: the registry, the executor scoped to an agent, and the built-in tools. No approvals."""
