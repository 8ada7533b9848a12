"""The key that the houses of the tests sign with, and what seals their logs."""

from __future__ import annotations

from app.service.statements import sealer
from app.trust.keys import derive_signing_key

SERVICE = derive_signing_key(bytes(range(1, 41)))
SEAL = sealer(SERVICE)
