"""Dispatch mutations: the service's signature over what its rules changed, and by which rule.

As with seals, the signed text is rebuilt from the fields of `dispatch.mutated` and its place.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from app.trust.statement import StatementKind, verify_signature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.trust.keys import P256Key
    from app.trust.refusal import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One change of one call: where, by which rule, and the digests of before and after.

    `worker` is the delegating call behind which it happened, or empty.
    """

    tenant: str
    conversation_id: str
    run_id: str
    turn_id: str
    worker: str
    call_id: str
    tool: str
    kind: str
    rule: str
    original_sha256: str
    mutated_sha256: str

    def members(self) -> dict[str, str]:
        """What is signed, as a statement of the kind DISPATCH_MUTATION."""
        return asdict(self)


def verify_mutation(
    mutation: Mutation, *, signature: str, kid: str, keys: Mapping[str, P256Key]
) -> Refused | None:
    """Why `signature` is not the one that the key `kid` made of that mutation."""
    return verify_signature(
        StatementKind.DISPATCH_MUTATION,
        mutation.members(),
        signature=signature,
        kid=kid,
        keys=keys,
    )
