"""Signing payloads, the python-jose fence, key statements, the audit chain and its verifier.

Pure cryptography over bytes: no I/O, no clock, no randomness. What does not hold is a value with a
reason (`Refused`, `Malformed`), never an exception, whatever bytes come in. Where to look:

- what all of it rests on: `documents` and `base64url` read what is signed, `keys` what it is signed
  with; `jose` is the fence, and `refusal` how anything is refused
- who calls: `access_token`; what people decide with: `key_proof` and `passkey`
- what people sign: `decision`, or `passkey_decision`, and `grant`
- what the service signs: a `statement`, which may be an `answer`, a `mutation` or a `seal`
- a log offline: `export` reads and verifies it, by its `chain` and event by event, with `evidence`
  of decisions, `answer_evidence` and `grant_evidence`
"""
