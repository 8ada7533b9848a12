"""Approvals: asked by a turn, decided by people, believed because of what they signed.

- `asking`: from a call that pends to what people are asked
- `use_cases`: read, prepare, decide, expire
- `decisions`: the checks of a posted decision, in their order
- `outcome`: the events that a decision makes
- `consents`: what a turn may use of all that was decided, verified again
"""
