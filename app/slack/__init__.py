"""Slack: verified ingress, cards and streamed replies. It has no approval rules of its own."""
