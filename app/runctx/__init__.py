"""The context of a run, over ports: its stored answer, so far.

- `answer` builds and validates the terminal answer, and is the only place that does
"""
