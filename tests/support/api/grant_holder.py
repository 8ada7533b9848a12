"""Somebody with a passkey who grants things, over whatever speaks HTTP for them.

holder = await Holder.of(world.person())
grant = await holder.grant(agent="courier")            # the document of an active grant
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from tests.support.authenticator import Authenticator

if TYPE_CHECKING:
    import httpx

_secrets = count(7_000_000)

COURIER: dict[str, Any] = {
    "agent": "courier",
    "tool": "http_post",
    "capabilities": ["arbitrary-egress", "mutate-external"],
    "expires_in_s": 3600,
}


class Speaker(Protocol):
    """Whoever sends requests with a token of their own."""

    async def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response: ...
    async def get(self, path: str, **more: Any) -> httpx.Response: ...


def answered(response: httpx.Response, status: int = 200) -> dict[str, Any]:
    """The document of an answer that must be of that status."""
    assert response.status_code == status, response.text
    document: dict[str, Any] = response.json()
    return document


@dataclass
class Holder:
    """A person, and the passkey that is enrolled for them."""

    person: Speaker
    authenticator: Authenticator
    passkey_id: str

    @staticmethod
    async def of(person: Speaker, **members: Any) -> Holder:
        """Enrol a passkey that nobody has; `members` are of its authenticator."""
        authenticator = Authenticator.of(next(_secrets), **members)
        options = answered(await person.post("/v1/passkeys/registration-options"))
        body = {"label": "phone", "credential": authenticator.create(options)}
        made = answered(await person.post("/v1/passkeys", body), 201)
        return Holder(person, authenticator, made["id"])

    async def options(self, **changed: Any) -> dict[str, Any]:
        """What the service wants signed for a grant."""
        return answered(await self.person.post("/v1/grants/options", COURIER | changed))

    async def signed(self, **changed: Any) -> dict[str, Any]:
        """The body that enrols a grant."""
        return self.authenticator.sign((await self.options(**changed))["canonical"])

    async def grant(self, **changed: Any) -> dict[str, Any]:
        """Enrol a grant; its document."""
        return answered(await self.person.post("/v1/grants", await self.signed(**changed)), 201)

    async def revocation(self, grant_id: str) -> dict[str, Any]:
        """The body that revokes a grant."""
        options = answered(await self.person.post(f"/v1/grants/{grant_id}/revoke-options"))
        return self.authenticator.sign(options["canonical"])

    async def revoke(self, grant_id: str) -> dict[str, Any]:
        """Revoke a grant; its document."""
        proof = await self.revocation(grant_id)
        return answered(await self.person.post(f"/v1/grants/{grant_id}/revoke", proof))

    async def read(self, grant_id: str) -> dict[str, Any]:
        """A grant as it is shown now."""
        return answered(await self.person.get(f"/v1/grants/{grant_id}"))
