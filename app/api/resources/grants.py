"""Remembered grants: prepare, enrol, list, read, revoke, suspend (service.md 5)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, JsonValue

from app.api.edge import Reading, Writing
from app.api.paging import Cursor, Limit, cut_page, page_of
from app.api.resources.approval_documents import PasskeyOptions
from app.api.routes import Routes
from app.api.wire import Body, Document, Time, time_or_none
from app.log.envelope import wire_time
from app.service.agents.spec import CapabilityName
from app.service.grants.use_cases import GrantRequest
from app.service.members import Name
from app.trust.grant import GrantConstraint

if TYPE_CHECKING:
    from app.api.edge import Call
    from app.log.grants import GrantUse
    from app.service.grants.use_cases import ShownGrant

routes = Routes(tags=["grants"])


class DraftGrant(Body):
    """A grant that its principal is about to sign."""

    agent: Annotated[Name, Field(description="The routine, by its agent's name")]
    tool: Annotated[str, Field(max_length=256)]
    capabilities: list[CapabilityName]
    constraints: list[GrantConstraint] = Field(default_factory=list)
    expires_in_s: Annotated[int, Field(description="60 to 7776000 (90 days)")]

    def request(self) -> GrantRequest:
        """What is asked for."""
        return GrantRequest(
            agent=self.agent,
            tool=self.tool,
            capabilities=tuple(self.capabilities),
            constraints=tuple(self.constraints),
            expires_in_s=self.expires_in_s,
        )


class SignedText(Body):
    """The text of the options, and the browser's assertion over it."""

    canonical: str
    assertion: dict[str, JsonValue]


class UseOfGrant(Document):
    """A call that the grant let run: its place in the log."""

    conversation_id: str
    seq: int
    run_id: str
    call_id: str
    at: Time


class Grant(Document):
    """A remembered grant; `revoked_at` also tells the end of the passkey that signed it.

    `uses` are the newest: at most 20 in a list, 100 of one grant.
    """

    id: str
    principal: str
    agent: str
    tool: str
    tool_definition_digest: str
    capabilities: list[CapabilityName]
    constraints: list[GrantConstraint]
    coverage_hash: str
    passkey_id: str
    state: Literal["active", "revoked", "suspended", "expired"]
    enrolled_at: Time
    expires_at: Time
    revoked_at: Time | None
    suspended_at: Time | None
    uses: list[UseOfGrant]


class GrantList(Document):
    """A page of the caller's grants, newest first."""

    items: list[Grant]
    next_cursor: str | None


@routes.read("/v1/grants/options", "prepare_grant", scope="grants:write", method="POST")
async def prepare_grant(call: Reading, body: DraftGrant) -> PasskeyOptions:
    """The text of a grant, and the WebAuthn options to sign it; nothing is stored."""
    canonical = await call.edge.grants.prepare(call.session, call.caller, body.request())
    return await _options(call, canonical)


@routes.write("POST", "/v1/grants", "enrol_grant", scope="grants:write", status_code=201)
async def enrol_grant(call: Writing, body: SignedText) -> Grant:
    """Enrol a grant of the caller's own, as it was signed."""
    return _grant_document(call, await call.edge.grants.enrol(call.tx, call.caller, _proof(body)))


@routes.read("/v1/grants", "list_grants", scope="grants:write")
async def list_grants(call: Reading, *, limit: Limit = 50, cursor: Cursor = None) -> GrantList:
    """The caller's grants, newest first, ended ones included."""
    found = await call.edge.grants.page(call.session, call.caller, page_of(limit, cursor))
    shown, more = cut_page(found, limit, lambda one: one.grant.id)
    return GrantList(items=[_grant_document(call, one) for one in shown], next_cursor=more)


@routes.read("/v1/grants/{grant_id}", "get_grant", scope="grants:write")
async def get_grant(call: Reading, grant_id: str) -> Grant:
    """One of the caller's grants, and where it was used."""
    return _grant_document(call, await call.edge.grants.read(call.session, call.caller, grant_id))


@routes.read(
    "/v1/grants/{grant_id}/revoke-options",
    "prepare_grant_revocation",
    scope="grants:write",
    method="POST",
)
async def prepare_grant_revocation(call: Reading, grant_id: str) -> PasskeyOptions:
    """The text that revokes a grant, and the WebAuthn options to sign it; nothing is stored."""
    canonical = await call.edge.grants.prepare_revocation(call.session, call.caller, grant_id)
    return await _options(call, canonical)


@routes.write("POST", "/v1/grants/{grant_id}/revoke", "revoke_grant", scope="grants:write")
async def revoke_grant(call: Writing, grant_id: str, body: SignedText) -> Grant:
    """Revoke a grant of the caller's own with a passkey."""
    revoked = await call.edge.grants.revoke(call.tx, call.caller, grant_id, _proof(body))
    return _grant_document(call, revoked)


@routes.write("POST", "/v1/grants/{grant_id}/suspend", "suspend_grant", scope="admin")
async def suspend_grant(call: Writing, grant_id: str) -> Grant:
    """Stop anybody's grant; no passkey is needed, and there is no way back."""
    return _grant_document(call, await call.edge.grants.suspend(call.tx, call.caller, grant_id))


async def _options(call: Reading, canonical: str) -> PasskeyOptions:
    options = await call.edge.passkeys.assertion_options(call.session, call.caller, canonical)
    return PasskeyOptions(canonical=canonical, options=options)


def _proof(body: SignedText) -> dict[str, object]:
    return {"canonical": body.canonical, "assertion": body.assertion}


def _grant_document(call: Call, shown: ShownGrant) -> Grant:
    """How a grant is shown just now."""
    grant, coverage = shown.grant, shown.grant.coverage
    return Grant(
        id=grant.id,
        principal=coverage.principal,
        agent=coverage.agent,
        tool=coverage.tool,
        tool_definition_digest=coverage.tool_definition_digest,
        capabilities=list(coverage.capabilities),
        constraints=[GrantConstraint(**asdict(one)) for one in coverage.constraints],
        coverage_hash=grant.coverage_hash,
        passkey_id=grant.passkey.id,
        state=grant.state(call.edge.clock.now()),
        enrolled_at=wire_time(grant.enrolled_at),
        expires_at=wire_time(grant.expires_at),
        revoked_at=time_or_none(grant.revoked_at or grant.passkey.revoked_at),
        suspended_at=time_or_none(grant.suspended_at),
        uses=[_use(one) for one in shown.uses],
    )


def _use(use: GrantUse) -> UseOfGrant:
    return UseOfGrant(
        conversation_id=use.conversation_id,
        seq=use.seq,
        run_id=use.run_id,
        call_id=use.call_id,
        at=wire_time(use.at),
    )
