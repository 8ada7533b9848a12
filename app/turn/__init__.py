"""One turn: `run_turn`, its stages, and the ports to the world.

asyncio is allowed here; SQL, HTTP, clocks and signers are not. A package holds a noun, and its
docstring says what is where in it; each imports only those below it. Where to look:

- the door: `run`, with what it is given, `agent`, `options` and a `transcript`, and what it gives
  back: a `result`, and a `stream` meanwhile
- the world, over `ports`; `clock` is the one that a turn has by itself, and `attempt` catches
  whatever a tool raises
- what comes first, in the middle and last: `stages`
- one model call: `model`; one call of a tool: `gate` says whether it runs, `execution` runs it
- what all of these share while the turn lasts: `state`
- what has to have a form: `forms`; files a provider stores, and what was folded: `native_files`,
  `folded`
- words and numbers: `texts`, `limits`
"""
