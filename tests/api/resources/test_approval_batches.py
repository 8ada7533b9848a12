"""Batches of decisions: each stands for itself, in the order sent (service.md 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.api.asked import NEVER_ISSUED, asked
from tests.support.api.world import pointers, problem

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_f21_two_in_a_batch_and_one_alone(world: ApiWorld) -> None:
    case = await asked(world, 3)
    batch = {
        "decisions": [
            {"approval_id": case.ids[2], "decision_jws": await case.jws(case.ids[2], "deny")},
            {"approval_id": case.ids[0], "decision_jws": await case.jws(case.ids[0])},
        ]
    }
    results = (await case.alice.post("/v1/approvals/batch", batch)).json()["results"]
    assert [result["approval_id"] for result in results] == [case.ids[2], case.ids[0]]
    assert [result["approval"]["status"] for result in results] == ["denied", "approved"]
    assert all(
        result.keys() == {"approval_id", "status", "approval", "persisted"} for result in results
    )
    assert await case.run_status() == "paused"
    body = {"decision_jws": await case.jws(case.ids[1])}
    await case.alice.post(f"/v1/approvals/{case.ids[1]}/approve", body)
    assert await case.run_status() == "queued"


async def test_a_batch_tells_of_each_and_never_fails_as_a_whole(world: ApiWorld) -> None:
    case = await asked(world, 2)
    good = await case.jws(case.ids[0])
    batch = {
        "decisions": [
            {"approval_id": case.ids[1], "decision_jws": good},
            {"approval_id": NEVER_ISSUED, "decision_jws": good},
            {"approval_id": case.ids[0], "passkey": {}},
            {"approval_id": case.ids[0], "decision_jws": good},
            {"approval_id": case.ids[0], "decision_jws": good},
        ]
    }
    answer = await case.alice.post("/v1/approvals/batch", batch)
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [result["status"] for result in results] == [422, 404, 422, 200, 200]
    codes = [result["problem"]["code"] for result in results[:3]]
    assert codes == ["decision.binding", "not_found", "decision.malformed"]
    assert results[0].keys() == {"approval_id", "status", "problem"}
    assert [result["persisted"] for result in results[3:]] == [True, False]
    assert await case.refusals() == [
        ("decision.binding", "/approval_id"),
        ("decision.malformed", None),
    ]


async def test_a_batch_comes_again_under_its_key_without_another_effect(world: ApiWorld) -> None:
    case = await asked(world, 2)
    batch = {"decisions": [{"approval_id": case.ids[0], "decision_jws": "a.b.c"}]}
    first = await case.alice.post("/v1/approvals/batch", batch, Idempotency_Key="k")
    again = await case.alice.post("/v1/approvals/batch", batch, Idempotency_Key="k")
    assert again.content == first.content
    assert again.headers["idempotent-replayed"] == "true"
    assert len(await case.refusals()) == 1
    other = {"decisions": [{"approval_id": case.ids[1], "decision_jws": "a.b.c"}]}
    answer = await case.alice.post("/v1/approvals/batch", other, Idempotency_Key="k")
    problem(answer, 409, "idempotency.mismatch")
    assert len(await case.refusals()) == 1


@pytest.mark.parametrize("number", [0, 101])
async def test_a_batch_has_one_to_a_hundred_decisions(world: ApiWorld, number: int) -> None:
    item = {"approval_id": NEVER_ISSUED, "decision_jws": "a.b.c"}
    answer = await world.person().post("/v1/approvals/batch", {"decisions": [item] * number})
    assert pointers(problem(answer, 422, "request.invalid")) == ["/decisions"]
