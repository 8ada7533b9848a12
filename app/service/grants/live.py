"""The remembered grants that a run may use, and whether one of them still serves (turn.md 6.8).

They are read anew whenever a turn begins, and believed because of the bytes that their principal
signed, not of the columns beside them. One whose coverage is not what it would be today, of another
principal or agent, or of a tool that was defined anew or needs something else by now, is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.policy.capability import TAINT_REVOKED, parse_capabilities
from app.policy.grants import RememberedGrant
from app.service.keys.assertions import passkey_of
from app.trust.grant import GrantPayload, read_evidence
from app.trust.passkey import verify_proof
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from app.log.grants import GrantRecord
    from app.log.records import Lease
    from app.service.agents.binding import Bound
    from app.service.clock import Clock
    from app.service.ports.database import Database, Session
    from app.trust.grant import Coverage
    from app.turn.ports import ToolExecutor


async def remembered_grants(
    session: Session, lease: Lease, bound: Bound, *, now: datetime
) -> Mapping[str, tuple[RememberedGrant, ...]]:
    """The grants that may serve the run's next turn, by tool, newest first."""
    if not _may_be_held_back(bound):
        return {}
    run, executor = lease.run, bound.executor
    found: dict[str, tuple[RememberedGrant, ...]] = {}
    for record in await session.live_grants(run.principal, run.agent, now):
        signed = _signed(record)
        if signed is not None and _is_as_signed(signed.coverage, lease, executor):
            tool = signed.tool
            found[tool] = (*found.get(tool, ()), _usable(record.id, signed))
    return found


@dataclass(frozen=True, slots=True)
class LiveGrants:
    """Answers, in the middle of a turn, whether a grant serves yet."""

    database: Database
    tenant: str
    clock: Clock

    async def is_live(self, grant_ref: str) -> bool:
        """Whether it is neither revoked nor suspended nor expired. Raises StoreUnavailable."""
        async with self.database.session(self.tenant) as session:
            grant = await session.grant(grant_ref)
        return grant is not None and grant.state(self.clock.now()) == "active"


def _may_be_held_back(bound: Bound) -> bool:
    """Whether taint could keep the agent from any of its tools; without such, nothing is read.

    With the escape hatch there may be others than are offered.
    """
    tools = bound.executor
    return bound.spec.escape_hatch or any(
        tools.required_capabilities(spec.name) & TAINT_REVOKED for spec in tools.specs()
    )


def _signed(record: GrantRecord) -> GrantPayload | None:
    """What the stored bytes say, if the principal's passkey signed them."""
    read = read_evidence(GrantPayload, record.evidence)
    if isinstance(read, Refused) or read.payload.principal != record.passkey.principal:
        return None
    # The origin was judged when the grant was enrolled; any of the relying party will do now.
    refused = verify_proof(read.proof, passkey=passkey_of(record.passkey), origins=None)
    is_that_grant = read.payload.coverage.sha256 == record.coverage_hash
    return None if refused or not is_that_grant else read.payload


def _is_as_signed(signed: Coverage, lease: Lease, executor: ToolExecutor) -> bool:
    """Whether a grant of the same kind, made today, would cover the same.

    Covered must be all that taint takes from the tool, and nothing that the tool does not need: a
    tool that came to need more, or less, is not the one that was consented to.
    """
    spec = executor.spec(signed.tool)
    if spec is None:
        return False
    required = executor.required_capabilities(signed.tool)
    named = TAINT_REVOKED | parse_capabilities(signed.capabilities)
    present = replace(
        signed,
        tenant=lease.tenant,
        principal=lease.run.principal,
        agent=lease.run.agent,
        tool_definition_digest=spec.definition_digest,
        capabilities=tuple(sorted(each.value for each in required & named)),
    )
    return present.sha256 == signed.sha256


def _usable(grant_id: str, signed: GrantPayload) -> RememberedGrant:
    return RememberedGrant(
        covered=parse_capabilities(signed.capabilities),
        grant_ref=grant_id,
        coverage_hash=signed.coverage.sha256,
        constraints=signed.coverage.constraints,
        expires_at_ms=signed.expires_at * 1000,
    )
