"""Skills, as the people of a tenant handle them.

- `use_cases`: written, imported, read, deleted
- `spec`: a skill as it is written over HTTP
"""
