"""Turngate: agent turns behind a gate. `ARCHITECTURE.md` maps the rooms."""
