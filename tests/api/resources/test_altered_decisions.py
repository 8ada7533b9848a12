"""A canonical payload is worth something for a while and for one request, and only whole (6.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from app.trust import base64url
from tests.support.api.asked import asked
from tests.support.api.world import pointers, problem
from tests.trust.signer import b64

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_t72_a_lapsed_payload_is_refused_and_another_one_can_be_had(world: ApiWorld) -> None:
    """What a surface resolves a request with is the payload that the service gave it for that."""
    case = await asked(world, reason="could change something outside")
    [ident] = case.ids
    before = (await case.alice.get(f"/v1/approvals/{ident}")).json()
    lapsed = {"decision_jws": await case.jws(ident)}
    world.clock.step(901)
    case.alice = world.person()
    answer = await case.alice.post(f"/v1/approvals/{ident}/approve", lapsed)
    problem(answer, 422, "decision.expired")
    [listed] = (await case.alice.get("/v1/approvals?status=pending")).json()["items"]
    for member, value in (("reason", "could change something outside"), ("title", "Post")):
        assert listed[member] == before[member] == value
    fresh = {"decision_jws": await case.jws(ident)}
    answer = await case.alice.post(f"/v1/approvals/{ident}/approve", fresh)
    assert answer.json()["approval"]["status"] == "approved"


async def test_t72_a_payload_of_another_request_is_refused(world: ApiWorld) -> None:
    case = await asked(world, 2)
    first, second = case.ids
    jws = {"decision_jws": await case.jws(second)}
    answer = await case.alice.post(f"/v1/approvals/{first}/approve", jws)
    assert pointers(problem(answer, 422, "decision.binding")) == ["/approval_id"]
    assert [await case.status(ident) for ident in case.ids] == ["pending", "pending"]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("decision", "approve"),
        ("args_sha256", "0" * 64),
        ("override_args", '{"a":2}'),
        ("scope", "session"),
        ("note", "as agreed"),
        ("approver", "bob"),
    ],
)
async def test_t73_what_is_changed_on_the_way_fails(
    world: ApiWorld, member: str, value: Any
) -> None:
    """The signed request of a surface is the signed decision: no member of it can be exchanged."""
    case = await asked(world)
    [ident] = case.ids
    verdict = "deny" if member == "decision" else "approve"
    jws = altered(await case.jws(ident, verdict), lambda said: said | {member: value})
    answer = await case.alice.post(f"/v1/approvals/{ident}/approve", {"decision_jws": jws})
    problem(answer, 401, "decision.signature")
    assert (await case.status(ident), await case.run_status()) == ("pending", "paused")
    assert await case.refusals() == [("decision.signature", None)]


def altered(jws: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
    """The same signature over a payload that somebody changed."""
    head, payload, signature = jws.split(".")
    said = change(orjson.loads(base64url.decode(payload) or b""))
    return ".".join([head, b64(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)), signature])
