"""Signing payloads, the python-jose fence, key proofs and the audit chain.

Pure cryptography over bytes: no I/O, no clock, no randomness.
"""
