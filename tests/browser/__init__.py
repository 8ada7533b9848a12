"""The page and the streaming client of docs/examples, in a real browser against a real server."""
