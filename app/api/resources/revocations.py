"""Revoking access tokens, for administrators (service.md 2)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field, model_validator

from app.api.edge import Writing
from app.api.routes import Routes
from app.api.wire import Body
from app.service.members import Name

routes = Routes(tags=["tokens"])


class RevokeTokens(Body):
    """The token of an id, or those of a subject that were issued before a time."""

    jti: Name | None = None
    sub: Name | None = None
    before: Annotated[AwareDatetime, Field(strict=False)] | None = None

    @model_validator(mode="after")
    def _is_one_of_both(self) -> RevokeTokens:
        if (self.jti is None) == (self.sub is None) or (self.sub is None) != (self.before is None):
            raise ValueError("expected either jti, or sub and before")
        return self


@routes.write("POST", "/v1/revocations", "revoke_tokens", scope="admin", status_code=204)
async def revoke_tokens(call: Writing, body: RevokeTokens) -> None:
    """Refuse such tokens from now on, within five seconds on open sockets too."""
    revocations = call.edge.revocations
    if body.jti is not None:
        await revocations.revoke_token(call.tx, call.caller, body.jti)
    elif body.sub is not None and body.before is not None:
        await revocations.revoke_subject(call.tx, call.caller, body.sub, before=body.before)
