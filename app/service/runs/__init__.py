"""Conversations and runs as people handle them; `app.service.driving` drives them.

- `use_cases`: created, read, listed, cancelled
- `conversations`: who is in them, what was said
- `settle`: what a run leaves open when it ends by force
- `late_results`: what a tool answers to a call that has its result already
"""
