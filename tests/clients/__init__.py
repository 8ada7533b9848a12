"""Clients as their users get them: generated from the description, run against a real server."""
