"""Questions of agents to people.

- `asking`: from calls that ask to what people are asked
- `use_cases`: read, answer, end without an answer
- `answers`: the answers that a turn may use
"""
