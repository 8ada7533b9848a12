"""Use cases, the run driver, subscriptions and the supervisor that owns every task.

It depends on ports; `app.main` chooses the adapters. No FastAPI, no SQL and no adapter is
imported here.
"""
