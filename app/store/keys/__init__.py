"""Keys and what is withdrawn of them.

- `passkeys`: passkeys, SQL and records
- `service_keys`: the service's own public keys
- `revocations`: access tokens that are refused
- `private_file`: the secrets of this machine
"""
