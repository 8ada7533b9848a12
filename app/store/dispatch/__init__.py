"""What processes tell each other: what to drive, what was committed, who holds.

- `queue`: woken conversations, to whichever worker is free
- `wakes`: what wakes them, within a transaction
- `own_wakes`: those that do not leave the process
- `signals`: hints about commits
- `holds`: the holds of all processes
"""
