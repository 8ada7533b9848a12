"""`shell_exec` from the request to the files it leaves behind, where bubblewrap works."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from app.tools.sandbox.bubblewrap import find_shell
from tests.support.api.driver import KEY, ApiDriver, data_of, decide

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld, Person

SHELL = asyncio.run(find_shell())
pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.postgres,
    pytest.mark.skipif(SHELL.why_not is not None, reason=f"no sandbox: {SHELL.why_not}"),
]
PROGRAM = """call files_write {"path":"in.txt","content":"3 4"}
---
call shell_exec {"command":"read a b < in.txt; echo $((a*b)) | tee out.txt"}
---
call files_read {"path":"out.txt"}
---
say ok"""


async def driven(
    world: ApiWorld, alice: Person, program: str, **agent: Any
) -> tuple[ApiDriver, dict[str, Any]]:
    drives = ApiDriver.of(world, shell=await find_shell())
    await alice.agent(tools=["shell_exec", "files_write", "files_read"], **agent)
    return drives, await drives.until_idle(alice, await alice.run(input=program))


async def test_a_command_waits_for_its_approval_and_leaves_its_files(world: ApiWorld) -> None:
    alice = world.person()
    drives, run = await driven(world, alice, PROGRAM)
    assert run["status"] == "paused"
    [item] = run["pause"]["approvals"]
    assert (item["tool"], item["title"]) == ("shell_exec", "Run a command")
    await decide(alice, await alice.key(KEY), item["id"], "approve")
    run = await drives.until_idle(alice, run)
    assert run["status"] == "completed"
    results = [one["result"] for one in await data_of(alice, run, "tool.completed")]
    assert results[1:] == [
        '{"exit_code":0,"output":"12\\n"}',
        '{"path":"out.txt","content":"12\\n"}',
    ]
    assert run["tainted"] is True


async def test_t95_a_ceiling_without_egress_refuses_it_and_a_file_read_runs(
    world: ApiWorld,
) -> None:
    alice = world.person()
    program = 'call shell_exec {"command":"true"}\ncall files_read {"path":"a"}\n---\nsay ok'
    ceiling = ["local-read", "local-write"]
    _, run = await driven(world, alice, program, execution_ceiling=ceiling)
    [settled] = await data_of(alice, run, "tool.settled")
    assert (settled["tool"], settled["outcome"]) == ("shell_exec", "outside_ceiling")
    assert [one["tool"] for one in await data_of(alice, run, "tool.started")] == ["files_read"]


async def test_on_a_clean_context_it_runs_unasked_where_the_agent_allows_it(
    world: ApiWorld,
) -> None:
    alice = world.person()
    program = 'call shell_exec {"command":"exit 5"}\n---\nsay ok'
    _, run = await driven(world, alice, program, approval={"shell_exec": "allow"})
    assert run["status"] == "completed"
    [done] = await data_of(alice, run, "tool.completed")
    assert json.loads(done["result"]) == {"exit_code": 5, "output": ""}


async def test_where_there_is_no_sandbox_it_is_listed_with_the_reason(world: ApiWorld) -> None:
    items = (await world.person().get("/v1/tools?limit=200")).json()["items"]
    [tool] = [item for item in items if item["name"] == "shell_exec"]
    assert (tool["viable"], tool["why_not"]) == (False, "this process was given no sandbox")
    assert tool["required_capabilities"] == ["local-read", "local-write", "arbitrary-egress"]
