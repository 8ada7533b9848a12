"""What the log tells of a run. Nothing here writes.

- `standing`: where a run and its workers stand
- `fold`: the fold of one run's events behind it
- `open_turn`: what the limits of the open turn have counted
- `open_questions`: which questions wait, which were settled
- `active_time`: how long the run was worked on
- `history`: the messages of earlier runs
"""
