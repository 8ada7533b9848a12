"""The tables, and how a database comes to have them.

- `tables`: all of them in one place
- `log`: conversations, events, whom they belong to
- `runs`: what is folded from the log
- `access`: what no event rebuilds: agents, keys, what may happen once
- `grants`: remembered grants and their uses
- `memory`: turns, and what became of them
- `base`: what all table classes share
- `migrations`: from any earlier schema to this release's
"""
