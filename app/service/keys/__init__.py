"""The keys that people decide with.

- `approver_keys`: enrolled, revoked, reset
- `passkeys`: enrolled by a ceremony, revoked
- `endorsement`: the word of a key for a further one
- `assertions`: what is signed with a passkey beside decisions
"""
