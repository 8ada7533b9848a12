"""The stream of events to a reader: a WebSocket, or SSE.

- `socket`: touches the WebSocket, and nothing else does
- `handshake`: who is let in
- `session`: what may come next
- `socket_frames`: frames as text, written and strictly read
- `sse`: the same stream over HTTP
"""
