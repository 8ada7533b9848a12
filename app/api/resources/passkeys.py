"""Passkeys: register, list, revoke (service.md 5)."""

from __future__ import annotations

from pydantic import JsonValue

from app.api.edge import Reading, Writing
from app.api.paging import Cursor, Limit, cut_page, page_of
from app.api.resources.keys import Jws, PasskeyAssertion
from app.api.routes import Routes
from app.api.wire import Body, Document, Time, time_or_none
from app.log.envelope import wire_time
from app.log.records import PasskeyRecord
from app.service.keys.endorsement import Endorsement
from app.service.keys.passkeys import PasskeyRequest
from app.service.members import Name

routes = Routes(tags=["keys"])


class RegisterPasskey(Body):
    """The browser's answer to the options, and an older key's or passkey's endorsement."""

    label: Name
    credential: dict[str, JsonValue]
    endorsement_jws: Jws | None = None
    endorsement_passkey: PasskeyAssertion | None = None


class Passkey(Document):
    """An approver's passkey, without its material; `thumbprint` is that of its credential id."""

    id: str
    thumbprint: str
    rp_id: str
    label: str
    created_at: Time
    revoked_at: Time | None


class PasskeyList(Document):
    """A page of the caller's passkeys, newest first."""

    items: list[Passkey]
    next_cursor: str | None


@routes.read(
    "/v1/passkeys/registration-options",
    "prepare_passkey",
    scope="keys:write",
    method="POST",
)
async def prepare_passkey(call: Reading) -> dict[str, JsonValue]:
    """The WebAuthn options that make a passkey; nothing is stored."""
    return await call.edge.passkeys.registration_options(call.session, call.caller)


@routes.write("POST", "/v1/passkeys", "register_passkey", scope="keys:write", status_code=201)
async def register_passkey(call: Writing, body: RegisterPasskey) -> Passkey:
    """Enrol a passkey of the caller's own."""
    endorsement = Endorsement(body.endorsement_jws, body.endorsement_passkey)
    request = PasskeyRequest(body.label, body.credential, endorsement)
    return _passkey_document(await call.edge.passkeys.register(call.tx, call.caller, request))


@routes.read("/v1/passkeys", "list_passkeys", scope="keys:write")
async def list_passkeys(call: Reading, *, limit: Limit = 50, cursor: Cursor = None) -> PasskeyList:
    """The caller's passkeys, newest first, revoked ones included."""
    found = await call.edge.passkeys.page(call.session, call.caller, page_of(limit, cursor))
    shown, more = cut_page(found, limit, lambda passkey: passkey.id)
    return PasskeyList(items=[_passkey_document(one) for one in shown], next_cursor=more)


@routes.write(
    "DELETE", "/v1/passkeys/{passkey_id}", "revoke_passkey", scope="keys:write", status_code=204
)
async def revoke_passkey(call: Writing, passkey_id: str) -> None:
    """Revoke a passkey of the caller's own; it is kept for the decisions it signed."""
    await call.edge.passkeys.revoke(call.tx, call.caller, passkey_id)


def _passkey_document(passkey: PasskeyRecord) -> Passkey:
    """How a passkey is shown."""
    return Passkey(
        id=passkey.id,
        thumbprint=passkey.thumbprint,
        rp_id=passkey.rp_id,
        label=passkey.label,
        created_at=wire_time(passkey.created_at),
        revoked_at=time_or_none(passkey.revoked_at),
    )
