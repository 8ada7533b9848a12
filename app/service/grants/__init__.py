"""Remembered grants: consent to later calls, signed with a passkey.

- `use_cases`: enrolled, revoked, suspended
- `rules`: what may be granted at all
- `offers`: one that would have spared a person the question at hand
- `live`: those that a run may use
"""
