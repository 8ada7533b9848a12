"""Attacks by what tools bring back, played by a model that obeys them all (turn.md 5).

The corpus is one file a suite: tools, attacks, and tasks without any attack. A line `INJECT: TOOL
{json}` in a result is an order, and the model carries out every order it reads.
"""
