"""A run that waits for decisions, with a worker's part written into the log by hand."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any

from app.log.queries import LogScope
from tests.support.database.postgres import Talk, approval_requested, new_id, paused, started
from tests.trust.signer import Signer, compact

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld, Person

_secrets = count(2_000_000)
NEVER_ISSUED = "appr_01890000-0000-7000-8000-000000000000"


@dataclass
class Asked:
    """A run of Alice's that waits for one decision or more."""

    world: ApiWorld
    alice: Person
    signer: Signer
    kid: str
    run: dict[str, Any]
    ids: list[str]

    async def payload(
        self, approval_id: str, decision: str = "approve", **more: Any
    ) -> dict[str, Any]:
        body = {"decision": decision, **more}
        answer = await self.alice.post(f"/v1/approvals/{approval_id}/payload", body)
        assert answer.status_code == 200, answer.text
        payload: dict[str, Any] = answer.json()["payload"]
        return payload

    def sign(self, payload: dict[str, Any]) -> str:
        head = {"alg": "ES256", "kid": self.kid, "typ": "turngate-decision+jws"}
        return self.signer.jws(head, compact(payload))

    async def jws(self, approval_id: str, decision: str = "approve", **more: Any) -> str:
        return self.sign(await self.payload(approval_id, decision, **more))

    async def status(self, approval_id: str) -> str:
        status: str = (await self.alice.get(f"/v1/approvals/{approval_id}")).json()["status"]
        return status

    async def run_status(self) -> str:
        status: str = (await self.alice.get(f"/v1/runs/{self.run['id']}")).json()["status"]
        return status

    async def refusals(self) -> list[tuple[str, str | None]]:
        scope = LogScope(self.run["conversation_id"])
        async with self.world.store.database.session(self.world.tenant) as session:
            events = await session.events_of(scope, ["decision.refused"])
        return [(event.data["code"], event.data["pointer"]) for event in events]


async def asked(world: ApiWorld, number: int = 1, **fields: Any) -> Asked:
    """A paused run with `number` pending approvals, and a key of Alice's."""
    alice, signer = world.person(), Signer.of(next(_secrets))
    await alice.agent()
    kid = await alice.key(signer)
    run = await alice.run()
    talk = Talk(world.store, world.tenant, run["conversation_id"])
    ids = [new_id("appr") for _ in range(number)]
    given = {"args_sha256": sha256(b'{"a":1}').hexdigest(), **fields}
    requests = [
        approval_requested(ident, run["id"], talk.id, call_id=f"call_0_{at}", **given)
        for at, ident in enumerate(ids)
    ]
    await talk.finish(await talk.claim(), started(run["id"]), *requests, paused(run["id"], *ids))
    return Asked(world, alice, signer, kid, run, ids)
