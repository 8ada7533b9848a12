"""Signing payloads, the python-jose fence, key statements, the audit chain and its verifier.

Pure cryptography over bytes: no I/O, no clock, no randomness. What does not hold is a value with a
reason (`Refused`, `Malformed`), never an exception, whatever bytes come in.
"""
