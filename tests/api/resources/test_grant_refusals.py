"""Grants that are refused: what nobody may grant, and texts that nobody signed, or another did."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.resources.test_agents import audited
from tests.support.api.asked import asked
from tests.support.api.grant_holder import COURIER, Holder, answered
from tests.support.api.world import EVERYDAY, pointers, problem
from tests.support.authenticator import UP, Authenticator
from tests.trust.signer import b64, compact

if TYPE_CHECKING:
    import httpx

    from tests.support.api.world import ApiWorld

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]

NARROW = {"base": ["local-read", "arbitrary-egress"]}


async def holder(world: ApiWorld, sub: str = "alice", **members: Any) -> Holder:
    person = world.person(sub)
    await person.agent("courier", tools=["http_post"])
    await person.agent("narrow", tools=["http_post"], grant_policy=NARROW)
    return await Holder.of(person, **members)


@dataclass(frozen=True)
class Unlawful:
    id: str
    members: dict[str, Any]
    pointer: str
    expected: str


def constrained(op: str, value: Any, pointer: str = "/url") -> dict[str, Any]:
    return {"constraints": [{"pointer": pointer, "op": op, "value": value}]}


UNLAWFUL = [
    Unlawful("no such agent", {"agent": "clerk"}, "/agent", "there is no agent 'clerk'"),
    Unlawful("no tool of it", {"tool": "http_fetch"}, "/tool", "expected a tool of the agent"),
    Unlawful("no tool at all", {"tool": "teleport"}, "/tool", "expected a tool of the agent"),
    Unlawful("never granted", {"capabilities": ["grant-admin"]}, "/capabilities/0", "never"),
    Unlawful(
        "beyond the base",
        {"agent": "narrow"},
        "/capabilities/1",
        "mutate-external is not in the agent's base, or the tool does not need it; "
        "expected one of arbitrary-egress",
    ),
    Unlawful(
        "not needed",
        {"capabilities": ["arbitrary-egress", "local-read"]},
        "/capabilities/1",
        "local-read is not in the agent's base, or the tool does not need it; "
        "expected one of arbitrary-egress, mutate-external",
    ),
    Unlawful("nothing", {"capabilities": []}, "/capabilities", "one or more"),
    Unlawful("too short", {"expires_in_s": 59}, "/expires_in_s", "60 to 7776000 seconds"),
    Unlawful("too long", {"expires_in_s": 7776001}, "/expires_in_s", "60 to 7776000 seconds"),
    Unlawful("in the past", {"expires_in_s": -60}, "/expires_in_s", "60 to 7776000 seconds"),
    Unlawful("no pointer", constrained("equals", 1, "url"), "/constraints/0", "RFC 6901"),
    Unlawful("no prefix", constrained("url_prefix", "api.test"), "/constraints/0", "url_prefix"),
    Unlawful("no choice", constrained("one_of", []), "/constraints/0", "one_of"),
    Unlawful("no range", constrained("range", [2, 1]), "/constraints/0", "range"),
    Unlawful("too big", constrained("equals", "x" * 4097), "/constraints/0/value", "4096 bytes"),
    Unlawful(
        "too many",
        {"constraints": constrained("equals", 1)["constraints"] * 17},
        "/constraints",
        "at most 16",
    ),
]


@pytest.mark.parametrize("case", UNLAWFUL, ids=lambda case: case.id)
async def test_what_may_not_be_granted_is_not_prepared(world: ApiWorld, case: Unlawful) -> None:
    one = await holder(world)
    answer = await one.person.post("/v1/grants/options", COURIER | case.members)
    [fault] = problem(answer, 422, "grant.invalid")["errors"]
    assert fault["pointer"] == case.pointer
    assert case.expected in fault["detail"]


@pytest.mark.parametrize(
    "members",
    [
        {"capabilities": ["fly"]},
        {"constraints": [{"pointer": "/a", "op": "matches", "value": 1}]},
        {"constraints": [{"pointer": "/a", "op": "equals"}]},
        {"expires_in_s": "soon"},
        {"principal": "bob"},
    ],
    ids=str,
)
async def test_a_malformed_request_is_none(world: ApiWorld, members: dict[str, Any]) -> None:
    alice = world.person()
    answer = await alice.post("/v1/grants/options", COURIER | members)
    problem(answer, 422, "request.invalid")


async def forged(one: Holder, **members: Any) -> httpx.Response:
    """A text of one's own making, with other members than the service would write, and signed."""
    text = json.loads((await one.options())["canonical"]) | members
    return await one.person.post("/v1/grants", one.authenticator.sign(compact(text)))


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"tenant": "umbrella"}, "/tenant"),
        ({"principal": "bob"}, "/principal"),
        ({"agent": "clerk"}, "/agent"),
        ({"tool": "http_fetch"}, "/tool"),
        ({"tool_definition_digest": "0" * 64}, "/tool_definition_digest"),
        ({"capabilities": ["fly"]}, "/capabilities/0"),
        ({"capabilities": ["manage-admin"]}, "/capabilities/0"),
        ({"agent": "narrow"}, "/capabilities/1"),
        ({"capabilities": ["mutate-external", "arbitrary-egress"]}, "/capabilities"),
        ({"capabilities": ["arbitrary-egress"] * 2}, "/capabilities"),
        ({"expires_at": 1795953600 + 7776001}, "/expires_at"),
        ({"expires_at": 1795953600}, "/expires_at"),
        ({"iat": 1795953600 + 61, "exp": 1795953600 + 100}, "/exp"),
        ({"typ": "turngate.grant-revocation"}, ""),
        ({"exp": 1795953600 + 601}, ""),
        ({"v": 2}, ""),
    ],
    ids=str,
)
async def test_the_signed_text_is_held_against_what_there_is(
    world: ApiWorld, members: dict[str, Any], pointer: str
) -> None:
    """A client may write the text itself; it gets no further with it."""
    one = await holder(world)
    found = problem(await forged(one, **members), 422, "grant.invalid")
    assert pointers(found) == [pointer]
    assert answered(await one.person.get("/v1/grants"))["items"] == []


async def test_a_definition_that_changed_meanwhile_is_not_granted(world: ApiWorld) -> None:
    one = await holder(world)
    proof = await one.signed()
    await world.person().agent("courier", tools=["clock_now"])
    found = problem(await one.person.post("/v1/grants", proof), 422, "grant.invalid")
    assert pointers(found) == ["/tool"]


@dataclass(frozen=True)
class Wrong:
    id: str
    members: dict[str, Any] = field(default_factory=dict)


UNSOUND = [
    Wrong("another origin", {"origin": "https://evil.test"}),
    Wrong("nobody verified", {"flags": UP}),
    Wrong("another challenge", {"client": {"challenge": b64(bytes(32))}}),
    Wrong("a frame of another site", {"client": {"crossOrigin": True}}),
    Wrong("another rp id", {"rp_id": "evil.test"}),
    Wrong("a counter that stands still", {"count": -1}),
]


@pytest.mark.parametrize("wrong", UNSOUND, ids=lambda wrong: wrong.id)
async def test_a_bad_assertion_grants_and_revokes_nothing(world: ApiWorld, wrong: Wrong) -> None:
    one = await holder(world)
    kept = await one.grant()
    text = (await one.options())["canonical"]
    back = answered(await one.person.post(f"/v1/grants/{kept['id']}/revoke-options"))["canonical"]
    for name, value in wrong.members.items():
        setattr(one.authenticator, name, value)
    enrolling = await one.person.post("/v1/grants", one.authenticator.sign(text))
    assert pointers(problem(enrolling, 422, "grant.invalid")) == ["/assertion"]
    one.authenticator.count = wrong.members.get("count", 5)
    revoking = one.authenticator.sign(back)
    refused = await one.person.post(f"/v1/grants/{kept['id']}/revoke", revoking)
    assert pointers(problem(refused, 422, "grant.invalid")) == ["/assertion"]
    [left] = answered(await one.person.get("/v1/grants"))["items"]
    assert left["state"] == "active"


async def test_another_passkey_and_a_revoked_one_grant_nothing(world: ApiWorld) -> None:
    one, bob = await holder(world), await holder(world, "bob")
    text = (await one.options())["canonical"]
    for other in (Authenticator.of(6_999_999), bob.authenticator):
        refused = await one.person.post("/v1/grants", other.sign(text))
        assert pointers(problem(refused, 422, "grant.invalid")) == ["/assertion"]
    # What Alice signed serves nobody else, and what Bob signed in her name neither.
    theirs = await bob.person.post("/v1/grants", one.authenticator.sign(text))
    assert pointers(problem(theirs, 422, "grant.invalid")) == ["/principal"]
    gone = await world.person().delete(f"/v1/passkeys/{one.passkey_id}")
    assert gone.status_code == 204
    refused = await one.person.post("/v1/grants", one.authenticator.sign(text))
    assert pointers(problem(refused, 422, "grant.invalid")) == ["/assertion"]


async def test_a_text_is_good_once_and_for_ten_minutes(world: ApiWorld) -> None:
    one = await holder(world)
    text = (await one.options())["canonical"]
    assert (await one.person.post("/v1/grants", one.authenticator.sign(text))).status_code == 201
    again = await one.person.post("/v1/grants", one.authenticator.sign(text))
    assert pointers(problem(again, 422, "grant.invalid")) == ["/nonce"]
    late = (await one.options())["canonical"]
    world.clock.step(601)
    one.person = world.person()
    refused = await one.person.post("/v1/grants", one.authenticator.sign(late))
    assert pointers(problem(refused, 422, "grant.invalid")) == ["/exp"]


async def test_of_two_at_once_with_one_text_one_is_enrolled(world: ApiWorld) -> None:
    one = await holder(world, count=None)
    text = (await one.options())["canonical"]
    answers = await asyncio.gather(
        *(one.person.post("/v1/grants", one.authenticator.sign(text)) for _ in range(5))
    )
    assert sorted(answer.status_code for answer in answers) == [201, 422, 422, 422, 422]
    assert len(answered(await one.person.get("/v1/grants"))["items"]) == 1
    kinds = [kind for kind, _ in await audited(world)]
    assert kinds.count("grant.enrolled") == 1


async def test_of_two_revocations_at_once_one_is_told_that_it_ended(world: ApiWorld) -> None:
    one = await holder(world, count=None)
    grant = await one.grant()
    proofs = [await one.revocation(grant["id"]) for _ in range(3)]
    path = f"/v1/grants/{grant['id']}/revoke"
    answers = await asyncio.gather(*(one.person.post(path, proof) for proof in proofs))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
    kinds = [kind for kind, _ in await audited(world)]
    assert kinds.count("grant.revoked") == 1


async def test_a_revocation_is_of_one_grant(world: ApiWorld) -> None:
    one = await holder(world)
    first, second = await one.grant(), await one.grant(expires_in_s=60)
    proof = await one.revocation(first["id"])
    refused = await one.person.post(f"/v1/grants/{second['id']}/revoke", proof)
    assert pointers(problem(refused, 422, "grant.invalid")) == ["/grant_id"]
    enrolling = await one.signed()
    for body in (enrolling, {"canonical": "{}", "assertion": {}}):
        refused = await one.person.post(f"/v1/grants/{second['id']}/revoke", body)
        problem(refused, 422, "grant.invalid")
    problem(await one.person.post("/v1/grants", proof), 422, "grant.invalid")
    assert (await one.read(second["id"]))["state"] == "active"


async def test_anothers_grant_is_not_there(world: ApiWorld) -> None:
    one, bob = await holder(world), await holder(world, "bob")
    grant = await one.grant()
    proof = await one.revocation(grant["id"])
    stranger = world.person("alice", tenant=f"{world.tenant}-two")
    boss = world.person("boss", scopes=("admin",))
    path = f"/v1/grants/{grant['id']}"
    for other in (bob.person, stranger, boss):
        problem(await other.get(path), 404, "not_found")
        problem(await other.post(f"{path}/revoke-options"), 404, "not_found")
        problem(await other.post(f"{path}/revoke", proof), 404, "not_found")
        assert answered(await other.get("/v1/grants"))["items"] == []
    far = world.person("boss", scopes=("admin",), tenant=f"{world.tenant}-two")
    problem(await far.post(f"{path}/suspend"), 404, "not_found")
    assert (await one.read(grant["id"]))["state"] == "active"


async def test_only_an_admin_suspends_and_only_a_scope_grants(world: ApiWorld) -> None:
    one = await holder(world)
    grant = await one.grant()
    path = f"/v1/grants/{grant['id']}"
    problem(await one.person.post(f"{path}/suspend"), 403, "auth.scope")
    scopes = tuple(scope for scope in EVERYDAY if scope != "grants:write")
    weak = world.person(scopes=scopes)
    problem(await weak.post("/v1/grants/options", COURIER), 403, "auth.scope")
    problem(await weak.post("/v1/grants", await one.signed()), 403, "auth.scope")
    problem(await weak.get("/v1/grants"), 403, "auth.scope")
    problem(await weak.post(f"{path}/revoke", await one.revocation(grant["id"])), 403, "auth.scope")


async def test_neither_a_grant_nor_a_decision_passes_for_the_other(world: ApiWorld) -> None:
    """turn.md 6.2: one typ per artifact kind."""
    case, bob = await asked(world), await holder(world, "bob")
    path = f"/v1/approvals/{case.ids[0]}"
    as_decision = await case.alice.post(f"{path}/approve", {"passkey": await bob.signed()})
    problem(as_decision, 422, "decision.malformed")
    draft = answered(await case.alice.post(f"{path}/passkey-options", {"decision": "approve"}))
    as_grant = await bob.person.post("/v1/grants", bob.authenticator.sign(draft["canonical"]))
    problem(as_grant, 422, "grant.invalid")
    assert await case.status(case.ids[0]) == "pending"
