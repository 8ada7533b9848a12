"""One turn: `run_turn`, its stages, the resume pre-pass, and the ports to the world.

asyncio is allowed here; SQL, HTTP, clocks and signers are not.
"""
