"""What readers get of the log, in order and at their pace.

- `use_cases`: how streams are opened, bounded and ended
- `subscriptions`: one reader's way through the log
- `hold`: readers that a run waits for
- `hold_sharing`: the same between processes
- `event_log`: pages of the log, and one event uncut
- `wakeups`: who is stirred when a log moves
"""
