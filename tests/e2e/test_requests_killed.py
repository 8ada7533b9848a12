"""`kill -9` of an API process around the commit of a request, and the other process that goes on.

All that a request may come to is told in process, in tests/api/test_requests_killed.py.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.e2e.processes import END_S, Place, serving
from tests.e2e.test_decision_race import SCOPES, Approver
from tests.support.authenticator import ORIGIN, RP_ID, Authenticator
from tests.trust.signer import Signer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import Popen

    from tests.support.log.killed import Moment

pytestmark = [pytest.mark.postgres, pytest.mark.e2e, pytest.mark.fault]

ROOT = Path(__file__).parents[2]
PROGRAM = f"call files_write {json.dumps({'path': 'a', 'content': 'x'})}\n---\nsay ok"
WHOLE = """
    run.created message.user run.started context.assembled step.started message.assistant call.gated
    run.checkpointed approval.requested run.paused approval.decided approval.resolved run.resumed
    tool.started tool.completed step.completed step.started text.delta message.assistant
    step.completed run.completed
"""
_people = count(1)


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, str]]:
    """A process of the API with the only worker; nothing kills it."""
    origins = (f"TURNGATE_RP_ID={RP_ID}", f"TURNGATE_ALLOWED_ORIGINS={ORIGIN}")
    place = Place(tmp_path_factory.mktemp("killed"), (*origins, f"PYTHONPATH={ROOT}"))
    with serving(place) as (address, _):
        yield place, address


@dataclass
class Mourner:
    """Somebody with a client at each process, of which the first may die of a request."""

    who: Approver
    dying: Popen[str]
    moment: Moment

    async def send(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request to the process that dies of it, and again to the one that lives."""
        key = {"Idempotency-Key": path}
        with pytest.raises(httpx.TransportError):
            await self.who.at[0].post(path, json=body, headers=key)
        assert self.dying.wait(END_S) == -signal.SIGKILL
        self.who.at[0] = self.who.at[1]
        is_done = self.moment == "after"
        if is_done:
            await self.goes_on(path)
        answer = await self.who.at[1].post(path, json=body, headers=key)
        assert answer.is_success, answer.text
        assert ("idempotent-replayed" in answer.headers) is is_done
        document: dict[str, Any] = answer.json()
        return document

    async def goes_on(self, path: str) -> None:
        """Wait for what the worker makes of the request, of which no process told it."""
        run = (await self.runs())[0]["id"]
        await (self.who.waiting(run) if path == "/v1/runs" else self.who.ended(run))

    async def runs(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self.who.at[1].get("/v1/runs")).json()["items"]
        return items


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("event", ["run.created", "approval.decided"])
async def test_a_request_that_died_with_its_process_is_done_once(
    living: tuple[Place, str], event: str, moment: Moment
) -> None:
    """After the commit the run goes on before anybody repeats anything."""
    place, address = living
    words = (sys.executable, "-m", "tests.support.api.mortal_process", event, moment)
    number = next(_people)
    passkey = Authenticator.of(9_500_000 + number)
    who = Approver(f"mourner-{number}", [], Signer.of(8_500_000 + number), passkey)
    headers = {"Authorization": f"Bearer {place.token(SCOPES, sub=who.sub)}"}
    async with AsyncExitStack() as stack:
        mortal = serving(replace(place, program=words), "--no-worker")
        dying, process = stack.enter_context(mortal)
        for each in (dying, address):
            client = httpx.AsyncClient(
                base_url=each, headers=headers, timeout=END_S, trust_env=False
            )
            who.at.append(await stack.enter_async_context(client))
        mourner = Mourner(who, process, moment)
        await who.enrol()
        spec = {"model": "script", "tools": ["files_write"], "approval": {"files_write": "ask"}}
        (await who.at[0].put(f"/v1/agents/{who.sub}", json=spec)).raise_for_status()
        creates = mourner.send if event == "run.created" else who.post
        run = (await creates("/v1/runs", {"agent": who.sub, "input": PROGRAM}))["id"]
        approval = await who.waiting(run)
        decision = await who.decision(approval, "approve", by_key=True)
        decides = mourner.send if event == "approval.decided" else who.post
        assert (await decides(f"/v1/approvals/{approval}/approve", decision))["persisted"] is True
        assert [one["type"] for one in await who.ended(run)] == WHOLE.split()
        assert len(await mourner.runs()) == 1
