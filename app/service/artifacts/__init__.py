"""The files of a conversation, as its people handle them.

- `use_cases`: uploaded, read, downloaded, deleted
"""
