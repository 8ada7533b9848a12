"""What the sandbox denies: a refusal, or a question whose answer opens a folder (turn.md 7.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api.driver import KEY, ApiDriver, data_of, decide
from tests.support.api.world import problem
from tests.trust.signer import Signer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.api.world import ApiWorld, Person

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]


class Escalation:
    """Alice, her key, and an agent with the file tools."""

    def __init__(self, world: ApiWorld, root: Path) -> None:
        self.root = root
        self.drives = ApiDriver.of(world, roots=[root])
        self.alice: Person = world.person()
        self.key_id = ""

    async def run(self, call: str, *, escalates: bool = True, **members: Any) -> dict[str, Any]:
        await self.alice.agent(
            tools=["files_read", "files_write"], escalate_sandbox_denials=escalates, **members
        )
        self.key_id = await self.alice.key(KEY)
        run = await self.alice.run(input=f"{call}\n---\nsay ok")
        return await self.drives.until_idle(self.alice, run)

    async def approve(self, run: dict[str, Any], **draft: Any) -> dict[str, Any]:
        [ident] = [item["id"] for item in run["pause"]["approvals"]]
        await decide(self.alice, self.key_id, ident, "approve", **draft)
        return await self.drives.until_idle(self.alice, run)

    async def results(self, run: dict[str, Any]) -> list[str]:
        done = await data_of(self.alice, run, "tool.completed")
        failed = await data_of(self.alice, run, "tool.failed")
        return [one["result"] for one in done] + [one["code"] for one in failed]


@pytest.fixture
def case(world: ApiWorld, tmp_path: Path) -> Escalation:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "a.txt").write_text("outside")
    return Escalation(world, tmp_path / "shared")


def reading(path: object) -> str:
    return f'call files_read {{"path":"{path}"}}'


async def test_t110_with_the_flag_off_the_sandbox_s_own_refusal_is_the_result(
    case: Escalation,
) -> None:
    run = await case.run(reading(case.root / "a.txt"), escalates=False)
    assert run["status"] == "completed"
    assert await case.results(run) == ["sandbox_denied"]
    assert await data_of(case.alice, run, "approval.requested") == []


async def test_t110_with_the_flag_on_it_pauses_by_the_rule_of_the_sandbox(
    case: Escalation,
) -> None:
    run = await case.run(reading(case.root / "a.txt"))
    assert run["status"] == "paused"
    [gated] = await data_of(case.alice, run, "call.gated")
    assert (gated["outcome"], gated["rule"], gated["missing"]) == ("escalate", "sandbox", [])
    [item] = run["pause"]["approvals"]
    card = (await case.alice.get(f"/v1/approvals/{item['id']}")).json()
    assert card["risk"]["sandbox_escalation"] is True
    assert (card["reason"], card["missing_capabilities"]) == ("", [])
    assert await data_of(case.alice, run, "tool.started") == []


async def test_t110_approved_as_relaxed_it_reaches_the_root_and_taints(case: Escalation) -> None:
    run = await case.run(reading(case.root / "a.txt"))
    run = await case.approve(run, sandbox_mode="relaxed")
    assert run["status"] == "completed"
    assert await case.results(run) == [f'{{"path":"{case.root}/a.txt","content":"outside"}}']
    assert run["tainted"] is True


async def test_t110_approved_without_a_mode_it_runs_in_the_ordinary_sandbox(
    case: Escalation,
) -> None:
    run = await case.approve(await case.run(reading(case.root / "a.txt")))
    assert run["status"] == "completed"
    assert await case.results(run) == ["sandbox_denied"]


@pytest.mark.parametrize("alices", ["relaxed", None])
async def test_of_two_approvers_one_alone_does_not_relax_the_sandbox(
    case: Escalation, alices: str | None
) -> None:
    run = await case.run(reading(case.root / "a.txt"), approvers={"count": 2})
    [item] = run["pause"]["approvals"]
    await decide(case.alice, case.key_id, item["id"], "approve", sandbox_mode=alices)
    bob, key = case.alice.world.person("bob", roles=("approver",)), Signer.of(8)
    bobs = None if alices else "relaxed"
    key_id = await bob.key(key)
    await decide(bob, key_id, item["id"], "approve", key=key, sandbox_mode=bobs)
    run = await case.drives.until_idle(case.alice, run)
    assert run["status"] == "completed"
    assert await case.results(run) == ["sandbox_denied"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../a.txt", "{root}/../other", "{root}/link"])
async def test_a_relaxed_sandbox_opens_the_roots_and_nothing_else(
    case: Escalation, path: str
) -> None:
    (case.root.parent / "other").write_text("hidden")
    (case.root / "link").symlink_to(case.root.parent / "other")
    run = await case.run(reading(path.format(root=case.root)))
    run = await case.approve(run, sandbox_mode="relaxed")
    assert await case.results(run) == ["sandbox_denied"]


async def test_a_file_is_written_into_a_root_by_the_signed_arguments(case: Escalation) -> None:
    call = f'call files_write {{"path":"{case.root}/new/b.txt","content":"b"}}'
    run = await case.run(call)
    assert not (case.root / "new").exists()
    await case.approve(run, sandbox_mode="relaxed")
    assert (case.root / "new" / "b.txt").read_text() == "b"


async def test_a_call_within_the_workspace_is_not_asked_about(case: Escalation) -> None:
    run = await case.run('call files_write {"path":"a","content":"x"}')
    assert run["status"] == "completed"


async def test_the_mode_cannot_be_signed_for_a_call_that_the_sandbox_takes(
    case: Escalation,
) -> None:
    await case.alice.agent(
        tools=["files_write"], approval={"files_write": "ask"}, escalate_sandbox_denials=True
    )
    run = await case.alice.run(input='call files_write {"path":"a","content":"x"}')
    run = await case.drives.until_idle(case.alice, run)
    [item] = run["pause"]["approvals"]
    body = {"decision": "approve", "sandbox_mode": "relaxed"}
    answer = await case.alice.post(f"/v1/approvals/{item['id']}/payload", body)
    problem(answer, 422, "request.invalid")
