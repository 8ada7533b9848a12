"""Approver keys: register, list, revoke, and an administrator's reset (service.md 5)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from app.api.edge import Reading, Writing
from app.api.paging import Cursor, Limit, cut_page, page_of
from app.api.routes import Routes
from app.api.wire import Body, Document, Time, time_or_none
from app.log.envelope import wire_time
from app.log.records import KeyRecord
from app.service.keys.approver_keys import KeyRequest
from app.service.keys.endorsement import Endorsement
from app.service.members import Name

routes = Routes(tags=["keys"])

Jws = Annotated[str, Field(max_length=16 * 1024)]
PasskeyAssertion = Annotated[
    dict[str, JsonValue], Field(description="`canonical` and its WebAuthn `assertion`")
]


class PublicJwk(Body):
    """A public key on P-256."""

    kty: str
    crv: str
    x: str
    y: str


class RegisterKey(Body):
    """A key to be enrolled, with its holder's proof and an older key's or passkey's word."""

    public_jwk: PublicJwk
    label: Name
    proof_jws: Jws
    endorsement_jws: Jws | None = None
    endorsement_passkey: PasskeyAssertion | None = None


class Key(Document):
    """An approver's key, without its material."""

    id: str
    thumbprint: str
    label: str
    created_at: Time
    revoked_at: Time | None


class KeyList(Document):
    """A page of the caller's keys, newest first."""

    items: list[Key]
    next_cursor: str | None


@routes.write("POST", "/v1/keys", "register_key", scope="keys:write", status_code=201)
async def register_key(call: Writing, body: RegisterKey) -> Key:
    """Enrol a key of the caller's own."""
    endorsement = Endorsement(body.endorsement_jws, body.endorsement_passkey)
    request = KeyRequest(body.public_jwk.model_dump(), body.label, body.proof_jws, endorsement)
    return _key_document(await call.edge.keys.register(call.tx, call.caller, request))


@routes.read("/v1/keys", "list_keys", scope="keys:write")
async def list_keys(call: Reading, *, limit: Limit = 50, cursor: Cursor = None) -> KeyList:
    """The caller's keys, newest first, revoked ones included."""
    found = await call.edge.keys.page(call.session, call.caller, page_of(limit, cursor))
    shown, more = cut_page(found, limit, lambda key: key.id)
    return KeyList(items=[_key_document(key) for key in shown], next_cursor=more)


@routes.write("DELETE", "/v1/keys/{key_id}", "revoke_key", scope="keys:write", status_code=204)
async def revoke_key(call: Writing, key_id: str) -> None:
    """Revoke a key of the caller's own; it is kept for the decisions it signed."""
    await call.edge.keys.revoke(call.tx, call.caller, key_id)


@routes.write(
    "POST", "/v1/principals/{sub}/reset-keys", "reset_keys", scope="admin", status_code=204
)
async def reset_keys(call: Writing, sub: str) -> None:
    """Revoke all keys of a principal and open the first enrolment again."""
    await call.edge.keys.reset(call.tx, call.caller, sub)


def _key_document(key: KeyRecord) -> Key:
    """How a key is shown."""
    return Key(
        id=key.id,
        thumbprint=key.thumbprint,
        label=key.label,
        created_at=wire_time(key.created_at),
        revoked_at=time_or_none(key.revoked_at),
    )
