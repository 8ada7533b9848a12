"""From a signed decision to the start of the tool that it allows."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import orjson
import rfc8785

from app.service.clock import SystemClock
from app.trust.jose import sign_jws
from app.trust.keys import CHANCE_BYTES, SigningKey, derive_signing_key
from bench.report import Measure, p50_p95
from bench.servers import SUB, TENANT
from bench.wire import Address, Http, Stream

if TYPE_CHECKING:
    from bench.report import Report
    from bench.servers import Server

AGENT = "clerk"
SAMPLES = 100
WARM_UP = 10
INPUT = 'call files_write {"path":"note","content":"tea"}\n---\nsay written'


@dataclass(frozen=True, slots=True)
class Desk:
    """An approver with a registered key, and the agent whose calls are decided."""

    address: Address
    http: Http
    key: SigningKey
    key_id: str

    @classmethod
    async def open(cls, address: Address) -> Desk:
        """Save the agent and register a key."""
        http = await Http.connect(address)
        agent = {"model": "script", "tools": ["files_write"], "approval": {"files_write": "ask"}}
        await http.call("PUT", f"/v1/agents/{AGENT}", agent)
        key = derive_signing_key(secrets.token_bytes(CHANCE_BYTES))
        thumbprint, now = key.public.thumbprint(), SystemClock().now_s()
        proof = rfc8785.dumps(
            {
                "typ": "turngate.key-proof",
                "tenant": TENANT,
                "sub": SUB,
                "thumbprint": thumbprint,
                "iat": now,
                "exp": now + 300,
            }
        )
        body = {
            "public_jwk": key.public.jwk(),
            "label": "bench",
            "proof_jws": sign_jws(proof, key=key, kid=thumbprint, typ="turngate-key-proof+jws"),
        }
        registered = await http.call("POST", "/v1/keys", body)
        return cls(address, http, key, registered["id"])

    async def decided_ms(self, conversation_id: str | None = None) -> float:
        """Pause a run, decide its call, and tell how long its tool took to start."""
        where = {} if conversation_id is None else {"conversation_id": conversation_id}
        run = await self.http.call("POST", "/v1/runs", {"agent": AGENT, "input": INPUT} | where)
        stream = await Stream.open(
            self.address, f"/v1/runs/{run['id']}/stream", after=await self._head(conversation_id)
        )
        asked = orjson.loads(await stream.until(b'"type":"approval.requested"'))["event"]["data"]
        await stream.until(b'"type":"run.paused"')
        path, jws = await self._signed(asked)
        started = asyncio.ensure_future(_seen_at(stream, b'"type":"tool.started"'))
        start = perf_counter()
        await self.http.call("POST", path, {"decision_jws": jws})
        seen = await started
        await stream.until(b'"type":"end"')
        await stream.close()
        return 1000 * (seen - start)

    async def _head(self, conversation_id: str | None) -> int:
        """Where a run's stream may begin: nobody replays what they have seen."""
        if conversation_id is None:
            return 0
        found = await self.http.call("GET", f"/v1/conversations/{conversation_id}")
        # The run that was just created has its first events before the head.
        return max(0, int(found["head_seq"]) - 50)

    async def _signed(self, asked: dict[str, Any]) -> tuple[str, str]:
        base = f"/v1/approvals/{asked['id']}"
        offer = await self.http.call("POST", f"{base}/payload", {"decision": "approve"})
        canonical = offer["canonical"].encode()
        jws = sign_jws(canonical, key=self.key, kid=self.key_id, typ="turngate-decision+jws")
        return f"{base}/approve", jws


async def measure(report: Report, desk: Desk, bare: Server) -> None:
    """Add what a decision takes until its tool starts."""
    ours = [await desk.decided_ms() for _ in range(WARM_UP + SAMPLES)][WARM_UP:]
    base = await _pushed_ms(bare.address)
    pairs = zip(("p50", "p95"), p50_p95(ours), p50_p95(base), ("<= 10 ms", ""), strict=True)
    report.add(
        *(
            Measure(
                f"decision -> tool.started, {which}",
                "ms",
                value,
                baseline,
                "a POST answered by a frame",
                bound,
            )
            for which, value, baseline, bound in pairs
        )
    )


async def _pushed_ms(address: Address) -> list[float]:
    http, stream = await Http.connect(address), await Stream.open(address, "/pushed")
    samples = []
    for _ in range(SAMPLES):
        seen = asyncio.ensure_future(_seen_at(stream, b"{"))
        start = perf_counter()
        await http.call("POST", "/push")
        samples.append(1000 * (await seen - start))
    await http.close()
    await stream.close()
    return samples


async def _seen_at(stream: Stream, mark: bytes) -> float:
    await stream.until(mark)
    return perf_counter()
