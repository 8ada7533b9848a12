"""Idempotency keys: the same request again gets the first answer again (service.md 1).

Claim, effect and answer commit in one transaction. What makes two requests the same is their
fingerprint; what makes two keys the same is their tenant and principal, which the store looks to.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from app.engine.json.arguments import canonical_bytes
from app.log.records import StoredAnswer
from app.service.refusals import FieldFault, RequestInvalid

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

    from pydantic import JsonValue
    from starlette.requests import Request

    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Database, Transaction

HEADER: Final = "idempotency-key"
MAX_CHARS: Final = 255
# What an answer says beside its body; everything else belongs to the connection.
_KEPT: Final = ("content-type", "location", "etag")
_MEANING: Final = ("content-type", "if-match")


@dataclass(frozen=True, slots=True)
class Claim:
    """A key that a request brought, and what the request is."""

    key: str
    fingerprint: str

    async def answered(self, tx: Transaction, caller: Caller, clock: Clock) -> Response | None:
        """The first answer if there was one; else the key is this transaction's.

        Raises IdempotencyMismatch and IdempotencyInProgress.
        """
        stored = await tx.claim_key(
            caller.principal, self.key, fingerprint=self.fingerprint, now=clock.now()
        )
        if stored is None:
            return None
        headers = {**stored.headers, "Idempotent-Replayed": "true"}
        return Response(stored.body, status_code=stored.status, headers=headers)

    async def first_answer(
        self, database: Database, caller: Caller, clock: Clock
    ) -> Response | None:
        """The first answer if there was one; else the key stays free.

        Raises IdempotencyMismatch and IdempotencyInProgress.
        """
        with suppress(_Unclaimed):
            async with database.transaction(caller.tenant) as tx:
                first = await self.answered(tx, caller, clock)
                if first is not None:
                    return first
                raise _Unclaimed
        return None

    async def keep(self, tx: Transaction, caller: Caller, response: Response) -> None:
        """Keep the answer, to be committed together with its effect."""
        headers = {name: response.headers[name] for name in _KEPT if name in response.headers}
        answer = StoredAnswer(response.status_code, headers, bytes(response.body))
        await tx.save_answer(caller.principal, self.key, answer)


class _Unclaimed(Exception):
    """Rolls back the look at a key that nobody has used."""


def claim_of(request: Request, raw: bytes, value: JsonValue) -> Claim | None:
    """The claim a request makes; `value` is its parsed body, None for one that is not JSON.

    Raises RequestInvalid.
    """
    keys = request.headers.getlist(HEADER)
    if not keys:
        return None
    if len(keys) > 1 or not 1 <= len(keys[0]) <= MAX_CHARS or not keys[0].isprintable():
        detail = f"expected one Idempotency-Key of 1 to {MAX_CHARS} printable characters"
        raise RequestInvalid(detail, faults=(FieldFault("/header/Idempotency-Key", detail),))
    body = raw if value is None else canonical_bytes(value)
    return Claim(keys[0], _fingerprint(request, body))


def _fingerprint(request: Request, body: bytes) -> str:
    digest = fingerprinting(request)
    digest.update(body)
    return digest.hexdigest()


def fingerprinting(request: Request) -> Hash:
    """The digest of a request's fingerprint, which its body is still to be added to."""
    parts = [
        request.method,
        request.url.path,
        request.url.query,
        *(request.headers.get(name) for name in _MEANING),
    ]
    # The head is JSON and has no bare line break, so no two requests share one spelling.
    return hashlib.sha256(canonical_bytes([*parts]) + b"\n")
