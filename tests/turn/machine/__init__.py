"""A run that anything may happen to, and the rules of turn.md 11 it is held against.

- `house`: the tools, as their operator registered them, and the policy of the moment
- `law`: what the rules say of one call, written from the specification alone
- `script`: the model, which plays a script, and what it can emit
- `runlog`: the log in memory, whose worker process can die at any commit
- `drive`: one turn from its inputs to what came of it; the same inputs can be driven twice
- `people`: cards, signed decisions, answers and standing consents
- `world`: the service's part, done from the log alone
- `history`: the log as an auditor reads it, call by call
- `kinds`: what a run may be; `rules`: what a machine may do to it
- `calls_audit`, `consent_audit`, `limits_audit`: one method for each invariant
- `machines`: the two machines, and how long each lives
"""
