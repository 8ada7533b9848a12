"""Remembered grants: consent to later calls, signed with a passkey.

- `use_cases`: enrolled, revoked, suspended
- `rules`: what may be granted at all
- `live`: those that a run may use
"""
