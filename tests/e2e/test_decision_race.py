"""Fifty decisions at once on an approval, at two processes, by keys and by passkeys too (F15)."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from app.service.clock import SystemClock
from tests.e2e.processes import END_S, Place, serving
from tests.support.authenticator import ORIGIN, RP_ID, Authenticator
from tests.trust.signer import Signer, compact

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

SCOPES = "agents:write runs:read runs:write approvals:read approvals:decide keys:write"
DECISIONS = 50
_people = count(1)


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, list[str]]]:
    """Two servers on one database, each with a worker of its own."""
    settings = (f"TURNGATE_RP_ID={RP_ID}", f"TURNGATE_ALLOWED_ORIGINS={ORIGIN}")
    place = Place(tmp_path_factory.mktemp("race"), settings)
    with serving(place) as (first, _), serving(place) as (second, _):
        yield place, [first, second]


@dataclass
class Approver:
    """Somebody with a key and a passkey, and a client at each process."""

    sub: str
    at: list[httpx.AsyncClient]
    signer: Signer
    authenticator: Authenticator
    kid: str = ""

    def said(self, kid: str, typ: str, thumbprint: str) -> str:
        """A statement about a key or passkey of one's own, signed by the key."""
        now = int(SystemClock().now().timestamp())
        statement = {"typ": f"turngate.{typ}", "tenant": "acme", "sub": self.sub}
        times = {"thumbprint": thumbprint, "iat": now, "exp": now + 300}
        head = {"alg": "ES256", "kid": kid, "typ": f"turngate-{typ}+jws"}
        return self.signer.jws(head, compact(statement | times))

    async def enrol(self) -> None:
        """Register the key, then the passkey on its word."""
        thumbprint = self.signer.public.thumbprint()
        proof = self.said(thumbprint, "key-proof", thumbprint)
        body = {"public_jwk": self.signer.jwk, "label": "laptop", "proof_jws": proof}
        self.kid = (await self.post("/v1/keys", body))["id"]
        options = await self.post("/v1/passkeys/registration-options", None)
        word = self.said(self.kid, "key-endorsement", self.authenticator.thumbprint)
        credential = self.authenticator.create(options)
        await self.post(
            "/v1/passkeys", {"label": "phone", "credential": credential, "endorsement_jws": word}
        )

    async def post(self, path: str, body: Any) -> dict[str, Any]:
        answer = await self.at[0].post(path, json=body)
        assert answer.is_success, answer.text
        document: dict[str, Any] = answer.json()
        return document

    async def decision(self, approval: str, verdict: str, *, by_key: bool) -> dict[str, Any]:
        """The body of a decision with a nonce of its own."""
        drafted = await self.post(f"/v1/approvals/{approval}/payload", {"decision": verdict})
        text = drafted["canonical"]
        if not by_key:
            return {"passkey": self.authenticator.sign(text)}
        head = {"alg": "ES256", "kid": self.kid, "typ": "turngate-decision+jws"}
        return {"decision_jws": self.signer.jws(head, text.encode())}

    async def waiting(self, run: str) -> str:
        """The approval that the run waits for."""
        while not (found := (await self.read(run))["pause"]):
            await self.moved(run)
        ident: str = found["approvals"][0]["id"]
        return ident

    async def ended(self, run: str) -> list[dict[str, Any]]:
        """The run's events, once it is over."""
        while (await self.read(run))["ended_at"] is None:
            await self.moved(run)
        page = (await self.at[1].get(f"/v1/runs/{run}/events?limit=1000")).json()
        events: list[dict[str, Any]] = page["items"]
        return events

    async def read(self, run: str) -> dict[str, Any]:
        document: dict[str, Any] = (await self.at[1].get(f"/v1/runs/{run}")).json()
        return document

    async def moved(self, run: str) -> None:
        """Returns once the run has another event, or after a second."""
        after = (await self.read(run))["head_seq"]
        await self.at[1].get(f"/v1/runs/{run}/events", params={"after": after, "wait": 1})


async def race(
    who: Approver, approval: str, verdicts: list[str], *, keys_only: bool
) -> list[tuple[str, httpx.Response]]:
    """All verdicts at once, at one process and the other in turn; so are key and passkey."""
    bodies = await asyncio.gather(
        *(
            who.decision(approval, verdict, by_key=keys_only or number // 2 % 2 == 0)
            for number, verdict in enumerate(verdicts)
        )
    )
    answers = await asyncio.gather(
        *(
            who.at[number // 4 % 2].post(f"/v1/approvals/{approval}/{verdict}", json=body)
            for number, (verdict, body) in enumerate(zip(verdicts, bodies, strict=True))
        )
    )
    return list(zip(verdicts, answers, strict=True))


@pytest.mark.parametrize("keys_only", [False, True], ids=["keys-and-passkeys", "keys"])
@pytest.mark.parametrize("others", ["deny", "approve"])
async def test_t71_of_fifty_decisions_at_once_one_is_kept(
    houses: tuple[Place, list[str]], others: str, *, keys_only: bool
) -> None:
    """T71: the rest are the same again or told who won; the tool runs once, or not at all."""
    place, addresses = houses
    number = next(_people)
    sub = f"racer-{number}"
    headers = {"Authorization": f"Bearer {place.token(SCOPES, sub=sub)}"}
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=address, headers=headers, timeout=END_S, trust_env=False)
            )
            for address in addresses
        ]
        # Many passkeys have no counter; one that counts would refuse decisions that overtake.
        passkey = Authenticator.of(9_000_000 + number, count=None)
        who = Approver(sub, clients, Signer.of(8_000_000 + number), passkey)
        await who.enrol()
        spec = {"model": "script", "tools": ["files_write"], "approval": {"files_write": "ask"}}
        (await clients[0].put(f"/v1/agents/{sub}", json=spec)).raise_for_status()
        program = f"call files_write {json.dumps({'path': 'a', 'content': 'x'})}\n---\nsay ok"
        run = (await who.post("/v1/runs", {"agent": sub, "input": program}))["id"]
        approval = await who.waiting(run)
        verdicts = ["approve", others] * (DECISIONS // 2)
        answers = await race(who, approval, verdicts, keys_only=keys_only)
        events = await who.ended(run)
    [winner] = {verdict for verdict, answer in answers if persisted(answer)}
    assert sum(persisted(answer) for _, answer in answers) == 1
    for verdict, answer in answers:
        expected = (200, None) if verdict == winner else (409, "approval.decided")
        assert (answer.status_code, answer.json().get("code")) == expected
    kinds = [event["type"] for event in events]
    assert kinds.count("approval.decided") == kinds.count("approval.resolved") == 1
    assert kinds.count("tool.started") == (winner == "approve")
    assert kinds[-1] == "run.completed"


def persisted(answer: httpx.Response) -> bool:
    return answer.json().get("persisted") is True
