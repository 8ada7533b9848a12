"""REST, WebSocket and SSE: parse, call one use case, answer. No SQL, no business rule.

The one table from stable codes to HTTP statuses and close codes lives here.
"""
