"""`turngate demo`: the main job, played through the public API as any client would.

- `staging`: what is put in place for it, and taken down afterwards
- `play`: three scenes of one person, one agent and one model
- `story`: what is said in them
- `client`: the person, at the public API
- `screen`: what is seen
- `receiver`: the outside world, which takes the orders
- `server`: the processes
- `place`: their data directory
"""
