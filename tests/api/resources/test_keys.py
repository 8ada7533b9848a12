"""Approver keys over HTTP: proof, endorsement, revocation, reset (service.md 5)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from app.cli.auditing import judged
from app.store.log.stored_logs import StoredLogs
from tests.api.resources.test_agents import audited
from tests.support.api.asked import asked
from tests.support.api.world import pointers, problem, thumbprint
from tests.trust.signer import Signer

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")

_secrets = count(1_000_000)


def fresh() -> Signer:
    """A key that nobody has."""
    return Signer.of(next(_secrets))


async def test_the_first_key_is_taken_on_the_tokens_word(world: ApiWorld) -> None:
    alice, signer = world.person(), fresh()
    made = await alice.post("/v1/keys", alice.enrolment(signer))
    assert made.status_code == 201
    key = made.json()
    assert key == {
        "id": key["id"],
        "thumbprint": thumbprint(signer),
        "label": "laptop",
        "created_at": "2026-11-29T12:00:00.000Z",
        "revoked_at": None,
    }
    assert key["id"].startswith("key_")
    assert (await alice.get("/v1/keys")).json() == {"items": [key], "next_cursor": None}
    assert (await world.person("bob").get("/v1/keys")).json()["items"] == []
    [(kind, data)] = await audited(world)
    assert (kind, data["by"], data["resource"]["id"]) == ("key.registered", "alice", key["id"])
    assert "public_jwk" not in data["resource"]


@dataclass(frozen=True)
class Case:
    id: str
    pointer: str
    body: dict[str, Any] = field(default_factory=dict)
    statement: dict[str, Any] = field(default_factory=dict)


UNPROVEN = [
    Case("no proof at all", "/proof_jws", {"proof_jws": "a.b.c"}),
    Case("for another tenant", "/proof_jws", statement={"tenant": "other"}),
    Case("for another person", "/proof_jws", statement={"sub": "other"}),
    Case("for another key", "/proof_jws", statement={"thumbprint": "other"}),
    Case("for too long", "/proof_jws", statement={"exp": 2_000_000_000}),
    Case("of another type", "/proof_jws", statement={"typ": "turngate.key-endorsement"}),
    Case(
        "no point of the curve",
        "/public_jwk",
        {"public_jwk": {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"}},
    ),
    Case(
        "another curve",
        "/public_jwk",
        {"public_jwk": {"kty": "EC", "crv": "P-384", "x": "AAAA", "y": "AAAA"}},
    ),
]


@pytest.mark.parametrize("case", UNPROVEN, ids=lambda case: case.id)
async def test_a_key_without_its_proof_is_refused(world: ApiWorld, case: Case) -> None:
    alice = world.person()
    body = alice.enrolment(fresh(), **case.statement) | case.body
    found = problem(await alice.post("/v1/keys", body), 422, "key.invalid")
    assert pointers(found) == [case.pointer]
    assert (await alice.get("/v1/keys")).json()["items"] == []


async def test_a_private_key_is_not_even_read(world: ApiWorld) -> None:
    alice = world.person()
    body = alice.enrolment(fresh())
    body["public_jwk"]["d"] = "c2VjcmV0"
    answer = await alice.post("/v1/keys", body)
    assert pointers(problem(answer, 422, "request.invalid")) == ["/public_jwk/d"]
    assert "c2VjcmV0" not in answer.text


async def test_a_further_key_needs_the_word_of_an_active_one(world: ApiWorld) -> None:
    alice, first, second, third = world.person(), fresh(), fresh(), fresh()
    kid = await alice.key(first)
    bare = await alice.post("/v1/keys", alice.enrolment(second))
    problem(bare, 403, "key.endorsement")
    stolen = {"endorsement_jws": alice.endorsement(second, kid, fresh())}
    problem(await alice.post("/v1/keys", alice.enrolment(second) | stolen), 403, "key.endorsement")
    foreign = {"endorsement_jws": alice.endorsement(third, kid, first)}
    problem(await alice.post("/v1/keys", alice.enrolment(second) | foreign), 403, "key.endorsement")
    assert await alice.key(second, endorsed_by=(kid, first))


async def test_a_revoked_key_endorses_nothing_and_opens_no_first_enrolment(
    world: ApiWorld,
) -> None:
    alice, first, second = world.person(), fresh(), fresh()
    kid = await alice.key(first)
    for _ in range(2):
        assert (await alice.delete(f"/v1/keys/{kid}")).status_code == 204
    [key] = (await alice.get("/v1/keys")).json()["items"]
    assert key["revoked_at"] == "2026-11-29T12:00:00.000Z"
    word = {"endorsement_jws": alice.endorsement(second, kid, first)}
    for body in (alice.enrolment(second), alice.enrolment(second) | word):
        problem(await alice.post("/v1/keys", body), 403, "key.endorsement")
    assert [kind for kind, _ in await audited(world)] == ["key.registered", "key.revoked"]


async def test_a_key_has_one_owner(world: ApiWorld) -> None:
    alice, bob, signer = world.person(), world.person("bob"), fresh()
    kid = await alice.key(signer)
    problem(await bob.post("/v1/keys", bob.enrolment(signer)), 409, "key.taken")
    again = {"endorsement_jws": alice.endorsement(signer, kid, signer)}
    problem(await alice.post("/v1/keys", alice.enrolment(signer) | again), 409, "key.taken")
    problem(await bob.delete(f"/v1/keys/{kid}"), 404, "not_found")
    problem(await alice.delete("/v1/keys/key_0"), 404, "not_found")


async def test_of_many_first_keys_one_is_taken(world: ApiWorld) -> None:
    alice = world.person()
    answers = await asyncio.gather(
        *(alice.post("/v1/keys", alice.enrolment(fresh())) for _ in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [201] + [403] * 7


async def test_a_reset_revokes_all_and_opens_the_first_enrolment_again(world: ApiWorld) -> None:
    alice, boss = world.person(), world.person("boss", scopes=("admin",))
    first = fresh()
    kid = await alice.key(first)
    await alice.key(fresh(), endorsed_by=(kid, first))
    problem(await alice.post("/v1/principals/alice/reset-keys"), 403, "auth.scope")
    assert (await boss.post("/v1/principals/alice/reset-keys")).status_code == 204
    assert all(key["revoked_at"] for key in (await alice.get("/v1/keys")).json()["items"])
    assert await alice.key(fresh())
    problem(await alice.post("/v1/keys", alice.enrolment(fresh())), 403, "key.endorsement")
    kind, data = (await audited(world))[2]
    assert (kind, data) == ("keys.reset", {"resource": {"principal": "alice"}, "by": "boss"})


@pytest.mark.parametrize("path", ["DELETE /v1/keys/{kid}", "POST /v1/principals/alice/reset-keys"])
async def test_what_a_revoked_key_decided_is_still_verified_and_it_decides_no_more(
    world: ApiWorld, path: str
) -> None:
    """The key is kept for that; an export brings it along."""
    case = await asked(world, 2)
    decided, waiting = case.ids
    late = {"decision_jws": await case.jws(waiting)}
    body = {"decision_jws": await case.jws(decided)}
    assert (await case.alice.post(f"/v1/approvals/{decided}/approve", body)).status_code == 200
    method, place = path.format(kid=case.kid).split()
    by = world.person(scopes=("keys:write", "admin"))
    assert (await by.ask(method, place)).status_code == 204
    refused = await case.alice.post(f"/v1/approvals/{waiting}/approve", late)
    problem(refused, 401, "decision.signature")
    async with StoredLogs(world.store.everyone).opened(case.run["conversation_id"]) as log:
        assert log is not None
        report = await judged(log)
    assert (report.decisions, report.findings) == (1, [])
