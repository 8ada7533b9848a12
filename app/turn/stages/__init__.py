"""The stages of a turn: first the calls an earlier turn left, then the steps up to the cap.

- `prepass`: calls that an earlier turn left open
- `loop`: the steps, and the completion that closes a turn at its cap
- `batch`: the calls of one step, to results for all or to a pause
- `decision_report`: decisions that met no call
"""
