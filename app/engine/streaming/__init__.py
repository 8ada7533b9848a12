"""One streamed attempt at a turn, from its items to the turn.

- `items`: what arrives, what is reported, and what a decision leads to
- `assembler`: makes the turn
- `calls`: its part for calls
- `reasoning`: its part for reasoning
- `stored`: its document
"""
