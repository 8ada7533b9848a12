"""REST, WebSocket and SSE: parse, call one use case, answer. No SQL, no business rule.

Where to look:

- the application and what goes around it: `app`, `edge`, `door`, `cors`, `notices`
- the way of a request: `routes`, with `bodies`, `paging`, `idempotency`, `tags` and `wire`
- the resources: `resources`, with `uploads`, `forms` and `ranges` for the bytes of files
- the stream of events: `stream`, of `frames` that hold an event as in `event_documents`
- errors: `codes` is the one table from codes to statuses and close codes, `problems` their form
- the description at `/openapi.json`: `description` makes the file beside it, with the names of
  `vocabulary`, what is said of the `members` and the `links` from an answer to what may follow it
"""
