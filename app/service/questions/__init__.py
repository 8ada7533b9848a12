"""Questions of agents to people; `app.service.approvals.asking` asks them.

- `use_cases`: read, answer, end without an answer
- `answers`: the answers that a turn may use
"""
