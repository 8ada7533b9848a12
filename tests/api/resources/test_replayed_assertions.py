"""An assertion that somebody has seen, sent once more: always tried, with a software authenticator.

Whatever comes of it, one signature decides one approval once (F128, service.md 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.api.resources.test_passkeys import Deciding, deciding
from tests.support.api.world import pointers, problem

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]


async def send(one: Deciding, proof: Any, *, at: int) -> Any:
    path = f"/v1/approvals/{one.case.ids[at]}/approve"
    return await one.case.alice.post(path, {"passkey": proof})


@pytest.mark.parametrize("count", [0, None], ids=["counts", "has no counter"])
async def test_f128_for_its_own_approval_it_changes_nothing(
    world: ApiWorld, count: int | None
) -> None:
    one = await deciding(world)
    one.authenticator.count = count
    proof = one.authenticator.sign(await one.canonical())
    first = (await send(one, proof, at=0)).json()
    again = (await send(one, proof, at=0)).json()
    assert (first["persisted"], again["persisted"]) == (True, False)
    assert again["approval"] == first["approval"]
    assert len(again["approval"]["decisions"]) == 1


@pytest.mark.parametrize("count", [0, None], ids=["counts", "has no counter"])
async def test_f128_for_another_approval_it_is_bound_to_the_first(
    world: ApiWorld, count: int | None
) -> None:
    one = await deciding(world, 2)
    one.authenticator.count = count
    proof = one.authenticator.sign(await one.canonical())
    assert (await send(one, proof, at=0)).status_code == 200
    answer = await send(one, proof, at=1)
    if count is None:
        assert pointers(problem(answer, 422, "decision.binding")) == ["/approval_id"]
    else:
        problem(answer, 401, "decision.signature")
    assert await one.case.status(one.case.ids[1]) == "pending"


async def test_f128_under_another_text_it_is_no_signature(world: ApiWorld) -> None:
    one = await deciding(world, 2)
    seen = one.authenticator.sign(await one.canonical())
    moved = seen | {"canonical": await one.canonical(at=1)}
    problem(await send(one, moved, at=1), 401, "decision.signature")
    denied = seen | {"canonical": await one.canonical("deny")}
    path = f"/v1/approvals/{one.case.ids[0]}/deny"
    problem(await one.case.alice.post(path, {"passkey": denied}), 401, "decision.signature")
    assert [await one.case.status(each) for each in one.case.ids] == ["pending", "pending"]


async def test_f128_one_that_was_held_back_is_older_than_what_came_since(world: ApiWorld) -> None:
    one = await deciding(world, 2)
    held_back = one.authenticator.sign(await one.canonical())
    later = one.authenticator.sign(await one.canonical(at=1))
    assert (await send(one, later, at=1)).status_code == 200
    problem(await send(one, held_back, at=0), 401, "decision.signature")
    assert await one.case.status(one.case.ids[0]) == "pending"
