"""What is remembered, each way of remembering over the same turns.

- `memories`: which way an agent's settings mean
- `plain`: the ways without a summary
- `rolling`: newest turns, and a summary of those before
- `folding`: which writes that summary, beside the runs
- `turns`: the turns as rows
- `state`: how far they are folded
- `recall`: turns found by meaning
- `vectors`: where their vectors lie
- `missed_turns`: runs that are over and were not remembered
"""
