"""Consent that lasts for a conversation, as a client sees it: given, used, ended (turn.md 6.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.support.api.driver import KEY, ApiDriver, data_of, decide

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld, Person

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]

WRITE = 'call files_write {"path":"a","content":"x"}'


class Talk:
    """Alice and an agent that asks before it writes, in one conversation."""

    def __init__(self, world: ApiWorld) -> None:
        self.drives = ApiDriver.of(world)
        self.alice: Person = world.person()
        self.within: dict[str, Any] = {}

    async def begins(self) -> None:
        """The first run pauses before two writes; the first is approved for the session."""
        await self.alice.agent(tools=["files_write"], approval={"files_write": "ask"})
        run = await self.run(f"{WRITE}\n{WRITE}\n---\nsay ok")
        first, _ = run["pause"]["approvals"]
        key_id = await self.alice.key(KEY)
        self.given = await decide(self.alice, key_id, first["id"], "approve", scope="session")
        self.first = await self.drives.until_idle(self.alice, run)

    async def run(self, text: str, **request: Any) -> dict[str, Any]:
        run = await self.alice.run(input=text, **self.within, **request)
        self.within = {"conversation_id": run["conversation_id"]}
        return await self.drives.until_idle(self.alice, run)

    async def covered(self, run: dict[str, Any]) -> list[Any]:
        return [one["covered_by"] for one in await data_of(self.alice, run, "tool.started")]

    @property
    def consent(self) -> dict[str, str]:
        return {"kind": "session", "id": self.given["id"]}


@pytest_asyncio.fixture(loop_scope="session")
async def talk(world: ApiWorld) -> Talk:
    case = Talk(world)
    await case.begins()
    return case


async def test_t97_t102_it_serves_the_other_call_and_every_later_one(talk: Talk) -> None:
    assert talk.first["status"] == "completed"
    decision = {"kind": "decision", "id": talk.given["id"]}
    assert await talk.covered(talk.first) == [decision, talk.consent]
    resolved = await data_of(talk.alice, talk.first, "approval.resolved")
    assert [one["by"] for one in resolved] == ["decision", "session"]
    later = await talk.run(f"{WRITE}\n---\nsay ok")
    assert later["status"] == "completed"
    assert await talk.covered(later) == [talk.consent]
    (gated,) = await data_of(talk.alice, later, "call.gated")
    assert (gated["outcome"], gated["covered_by"]) == ("escalate", talk.consent)


async def test_it_serves_where_nobody_is_present(talk: Talk) -> None:
    run = await talk.run(f"{WRITE}\n---\nsay ok", unattended=True)
    assert run["status"] == "completed"
    assert await talk.covered(run) == [talk.consent]
    assert await data_of(talk.alice, run, "call.denied_unattended") == []


async def test_once_it_is_ended_the_log_says_so_and_the_next_call_asks(talk: Talk) -> None:
    conversation = f"/v1/conversations/{talk.first['conversation_id']}"
    ended = await talk.alice.delete(f"{conversation}/session-approvals/files_write")
    assert ended.status_code == 204
    events = (await talk.alice.get(f"{conversation}/events?limit=1000")).json()["items"]
    assert [one["data"] for one in events if one["type"] == "session_approval.ended"] == [
        {"tool": "files_write", "agent": "helper", "principal": "alice"}
    ]
    run = await talk.run(f"{WRITE}\n---\nsay ok")
    assert run["status"] == "paused"
    assert [one["tool"] for one in run["pause"]["approvals"]] == ["files_write"]
