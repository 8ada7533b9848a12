"""The vocabulary of the event log: payloads, envelope, records folded from them. Pure.

The turn speaks it, the store keeps it, the service folds it and the edges show it, so there is one
name and one shape for each fact.
"""
