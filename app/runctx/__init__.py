"""The context of a run, over ports: its files and its stored answer, so far.

- `answer` builds and validates the terminal answer, and is the only place that does
- `ports` is what the room needs of stores, `shapes` the values that go through them
- `mime` says what a file is declared as, and what its bytes say
"""
