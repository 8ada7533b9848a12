"""What events about remembered grants do to the projections."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from app.log import calls, grants
from app.store.projections import kinds
from app.store.projections.changes import Change
from app.store.projections.fact import own_run
from app.store.texts import escape, escape_all, json_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.log.payload import Payload
    from app.store.projections.fact import Fact


def _grant_enrolled(fact: Fact, payload: grants.GrantEnrolled) -> list[Change]:
    if fact.event.private is None:
        raise ValueError(f"grant.enrolled at seq {fact.event.seq} has no signed document")
    grant = payload.resource
    row = {
        "id": grant.id,
        "conversation_id": fact.event.conversation_id,
        "principal": escape(grant.principal),
        "agent": escape(grant.agent),
        "tool": escape(grant.tool),
        "tool_definition_digest": grant.tool_definition_digest,
        "capabilities": escape_all(grant.capabilities),
        "constraints": json_text([each.model_dump() for each in grant.constraints]),
        "coverage_hash": grant.coverage_hash,
        "passkey_id": payload.passkey_id,
        "evidence": b64encode(fact.event.private).decode(),
        "enrolled_at": fact.at,
        "expires_at": grant.expires_at,
    }
    return [Change(kinds.GRANT_ENROLLED, row, writes=f"grant:{grant.id}")]


def _ended(fact: Fact, grant_id: str, **at: str) -> list[Change]:
    row = {
        "id": grant_id,
        "conversation_id": fact.event.conversation_id,
        "revoked_at": None,
        "suspended_at": None,
    }
    return [Change(kinds.GRANT_ENDED, row | at, writes=f"grant:{grant_id}")]


def _grant_revoked(fact: Fact, payload: grants.GrantRevoked) -> list[Change]:
    return _ended(fact, payload.resource.id, revoked_at=fact.at)


def _grant_suspended(fact: Fact, payload: grants.GrantSuspended) -> list[Change]:
    return _ended(fact, payload.resource.id, suspended_at=fact.at)


def _grant_replayed(fact: Fact, payload: calls.GrantReplayed) -> list[Change]:
    row = {
        "conversation_id": fact.event.conversation_id,
        "seq": fact.event.seq,
        "grant_id": escape(payload.grant_ref),
        "run_id": own_run(fact),
        "call_id": escape(payload.call_id),
        "at": fact.at,
    }
    subject = f"use:{fact.event.conversation_id}/{fact.event.seq}"
    return [Change(kinds.GRANT_USED, row, writes=subject)]


RULES: dict[type[Payload], Callable[[Fact, Any], list[Change]]] = {
    grants.GrantEnrolled: _grant_enrolled,
    grants.GrantRevoked: _grant_revoked,
    grants.GrantSuspended: _grant_suspended,
    calls.GrantReplayed: _grant_replayed,
}
