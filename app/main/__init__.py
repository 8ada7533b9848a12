"""The composition root: which adapter fulfils which port. No logic.

Everything is put together by arguments, and only here are the settings handed on:

- `house`: the whole, in the order in which it is opened; what commands open
- `parts`: what the use cases and the worker are made of, once the store is open
- `storage`: the database, migrated, and the store on it
- `access`: whose tokens are taken
- `models`: providers of models, and what embeds
- `toolbox`: the tools of the house, and its way to MCP servers
- `edge`: the use cases, as the routes call them
- `worker`: what drives runs
"""
