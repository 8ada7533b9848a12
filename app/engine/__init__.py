"""The sans-I/O run machine (`AgentRun`), its messages, streamed assembly and canonical arguments.

Pure: it never awaits, reads no clock and makes no policy choice of its own.
"""
