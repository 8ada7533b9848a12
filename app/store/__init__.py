"""Postgres: tables, event log, projections, leases and wake-ups. The only SQL and the only commit.

It decides nothing: what is written was decided in `service`.
"""
