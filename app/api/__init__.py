"""REST, WebSocket and SSE: parse, call one use case, answer. No SQL, no business rule.

Where to look:

- the application and what goes around it: `app`, `edge`, `door`, `cors`, `notices`
- the way of a request: `routes`, with `bodies`, `paging`, `idempotency` and `wire`
- the resources, as routes and as they are shown: `run_routes` and `run_documents`,
  `approval_routes` and `approval_documents`, `question_routes` and `question_documents`,
  `event_routes` and `event_documents`, and `conversation_routes`, `artifact_routes` (with `uploads`
  and `ranges`), `memory_routes`, `agent_routes`, `key_routes`, `passkey_routes`, `grant_routes`,
  `revocation_routes`, `tool_routes`, `mcp_routes`, `skill_routes`, `service_routes`
- the WebSocket: `socket` touches it, `socket_handshake` lets it in, `socket_session` says what may
  come next, `frames` and `socket_frames` are what is said; `sse` is the same stream over HTTP
- errors: `codes` is the one table from codes to statuses and close codes, `problems` their form
- the description at `/openapi.json`: `description` makes the file beside it, with the names of
  `vocabulary` and the `links` from an answer to what may follow it
"""
