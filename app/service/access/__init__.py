"""Who gets in, and how often.

- `tokens`: access tokens, their issuers, and the keys of these
- `revocations`: tokens that are refused from now on, in every process
- `rates`: how often a principal may ask
- `development`: the issuer for a machine of one's own
"""
