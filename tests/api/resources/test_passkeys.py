"""Passkeys over HTTP: enrolled, endorsed, revoked, and deciding (service.md 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from app.cli.auditing import judged
from app.store.log.stored_logs import StoredLogs
from tests.api.resources.test_agents import audited
from tests.support.api.asked import Asked, asked
from tests.support.api.driver import ApiDriver, data_of
from tests.support.api.world import pointers, problem
from tests.support.authenticator import UP, Authenticator
from tests.trust.signer import Signer, b64, compact

if TYPE_CHECKING:
    import httpx

    from tests.support.api.world import ApiWorld, Person

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]

_secrets = count(5_000_000)


def fresh(**members: Any) -> Authenticator:
    """An authenticator that nobody has."""
    return Authenticator.of(next(_secrets), **members)


async def options(person: Person) -> dict[str, Any]:
    answer = await person.post("/v1/passkeys/registration-options")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def enrol(person: Person, authenticator: Authenticator, **more: Any) -> httpx.Response:
    credential = authenticator.create(await options(person))
    return await person.post("/v1/passkeys", {"label": "phone", "credential": credential} | more)


def endorsed(person: Person, thumbprint: str) -> dict[str, Any]:
    """The statement that an older key or passkey makes about a new one."""
    return person.statement(Signer.of(7), "turngate.key-endorsement", thumbprint=thumbprint)


async def test_the_first_passkey_is_taken_on_the_tokens_word(world: ApiWorld) -> None:
    alice, authenticator = world.person(), fresh()
    given = await options(alice)
    assert given["rp"] == {"id": "turngate.test", "name": "Turngate"}
    assert given["authenticatorSelection"]["userVerification"] == "required"
    assert given["excludeCredentials"] == []
    made = await enrol(alice, authenticator)
    assert made.status_code == 201, made.text
    passkey = made.json()
    assert passkey == {
        "id": passkey["id"],
        "thumbprint": authenticator.thumbprint,
        "rp_id": "turngate.test",
        "label": "phone",
        "created_at": "2026-11-29T12:00:00.000Z",
        "revoked_at": None,
    }
    assert (await alice.get("/v1/passkeys")).json() == {"items": [passkey], "next_cursor": None}
    descriptor = {"type": "public-key", "id": b64(authenticator.credential_id)}
    assert (await options(alice))["excludeCredentials"] == [descriptor]
    assert (await world.person("bob").get("/v1/passkeys")).json()["items"] == []
    [(kind, data)] = await audited(world)
    assert (kind, data["by"]) == ("passkey.registered", "alice")
    assert data["resource"]["id"] == passkey["id"]
    assert "public_key" not in data["resource"]


@dataclass(frozen=True)
class Wrong:
    id: str
    members: dict[str, Any] = field(default_factory=dict)


UNSOUND = [
    Wrong("another origin", {"origin": "https://evil.test"}),
    Wrong("nobody verified", {"flags": UP}),
    Wrong("a challenge of one's own", {"client": {"challenge": b64(b"mine")}}),
    Wrong("a frame of another site", {"client": {"crossOrigin": True}}),
    Wrong("no challenge", {"client": {"challenge": "="}}),
]


@pytest.mark.parametrize("wrong", UNSOUND, ids=lambda wrong: wrong.id)
async def test_f128_a_registration_that_does_not_hold_is_refused(
    world: ApiWorld, wrong: Wrong
) -> None:
    alice = world.person()
    found = problem(await enrol(alice, fresh(**wrong.members)), 422, "passkey.invalid")
    assert pointers(found) == ["/credential"]


async def test_a_challenge_is_good_for_one_person_and_ten_minutes(world: ApiWorld) -> None:
    alice, bob = world.person(), world.person("bob")
    credential = fresh().create(await options(alice))
    body = {"label": "phone", "credential": credential}
    problem(await bob.post("/v1/passkeys", body), 422, "passkey.invalid")
    world.clock.step(601)
    problem(await world.person().post("/v1/passkeys", body), 422, "passkey.invalid")


async def test_a_further_one_needs_the_word_of_a_key(world: ApiWorld) -> None:
    alice, signer, authenticator = world.person(), Signer.of(next(_secrets)), fresh()
    kid = await alice.key(signer)
    problem(await enrol(alice, authenticator), 403, "key.endorsement")
    head = {"alg": "ES256", "kid": kid, "typ": "turngate-key-endorsement+jws"}
    word = signer.jws(head, compact(endorsed(alice, authenticator.thumbprint)))
    assert (await enrol(alice, authenticator, endorsement_jws=word)).status_code == 201
    again = await enrol(alice, authenticator, endorsement_jws=word)
    problem(again, 409, "key.taken")


async def test_a_further_one_needs_the_word_of_a_passkey(world: ApiWorld) -> None:
    alice, first, second, signer = world.person(), fresh(), fresh(), Signer.of(next(_secrets))
    assert (await enrol(alice, first)).status_code == 201
    problem(await alice.post("/v1/keys", alice.enrolment(signer)), 403, "key.endorsement")
    about_key = first.sign(compact(endorsed(alice, signer.public.thumbprint())))
    body = alice.enrolment(signer) | {"endorsement_passkey": about_key}
    assert (await alice.post("/v1/keys", body)).status_code == 201
    about = compact(endorsed(alice, second.thumbprint))
    for wrong in (
        about_key,
        fresh().sign(about),
        {"canonical": "{}"},
        Authenticator(first.signer, flags=UP).sign(about),
    ):
        refused = await enrol(alice, second, endorsement_passkey=wrong)
        assert pointers(problem(refused, 403, "key.endorsement")) == ["/endorsement_passkey"]
    word = first.sign(about)
    assert (await enrol(alice, second, endorsement_passkey=word)).status_code == 201
    replayed = await enrol(alice, fresh(), endorsement_passkey=word)
    problem(replayed, 403, "key.endorsement")


async def test_revoked_and_reset(world: ApiWorld) -> None:
    alice, boss, first = world.person(), world.person("boss", scopes=("admin",)), fresh()
    ident = (await enrol(alice, first)).json()["id"]
    problem(await world.person("bob").delete(f"/v1/passkeys/{ident}"), 404, "not_found")
    for _ in range(2):
        assert (await alice.delete(f"/v1/passkeys/{ident}")).status_code == 204
    [shown] = (await alice.get("/v1/passkeys")).json()["items"]
    assert shown["revoked_at"] == "2026-11-29T12:00:00.000Z"
    second = fresh()
    word = first.sign(compact(endorsed(alice, second.thumbprint)))
    problem(await enrol(alice, second, endorsement_passkey=word), 403, "key.endorsement")
    assert (await boss.post("/v1/principals/alice/reset-keys")).status_code == 204
    assert (await enrol(alice, second)).status_code == 201
    kinds = [kind for kind, _ in await audited(world)]
    assert kinds == ["passkey.registered", "passkey.revoked", "keys.reset", "passkey.registered"]


@dataclass
class Deciding:
    """An approval of Alice's that is to be decided with her passkey."""

    case: Asked
    authenticator: Authenticator
    passkey_id: str

    async def canonical(self, decision: str = "approve", at: int = 0) -> str:
        path = f"/v1/approvals/{self.case.ids[at]}/passkey-options"
        answer = await self.case.alice.post(path, {"decision": decision})
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["canonical"]
        return text

    async def post(self, proof: Any, verdict: str = "approve") -> httpx.Response:
        return await self.case.alice.post(
            f"/v1/approvals/{self.case.ids[0]}/{verdict}", {"passkey": proof}
        )


async def deciding(world: ApiWorld, number: int = 1, **members: Any) -> Deciding:
    case, authenticator = await asked(world, number, **members), fresh()
    head = {"alg": "ES256", "kid": case.kid, "typ": "turngate-key-endorsement+jws"}
    word = case.signer.jws(head, compact(endorsed(case.alice, authenticator.thumbprint)))
    made = await enrol(case.alice, authenticator, endorsement_jws=word)
    assert made.status_code == 201, made.text
    return Deciding(case, authenticator, made.json()["id"])


PASSKEY_ONLY: dict[str, Any] = {
    "required": {"count": 1, "assurance": "passkey", "roles": ("approver",), "allow_self": True}
}


async def test_assurance_passkey_is_met_by_a_passkey_alone(world: ApiWorld) -> None:
    one = await deciding(world, **PASSKEY_ONLY)
    path = f"/v1/approvals/{one.case.ids[0]}/approve"
    jws = {"decision_jws": await one.case.jws(one.case.ids[0])}
    problem(await one.case.alice.post(path, jws), 403, "decision.approver")
    proof = one.authenticator.sign(await one.canonical())
    answer = await one.post(proof)
    assert answer.status_code == 200, answer.text
    [decision] = answer.json()["approval"]["decisions"]
    assert (decision["assurance"], decision["key_id"]) == ("passkey", one.passkey_id)
    assert answer.json()["persisted"] is True
    # The same bytes again change nothing, although the counter stands where it stood.
    again = await one.post(proof)
    assert (again.status_code, again.json()["persisted"]) == (200, False)


async def test_the_options_ask_for_the_canonical_text(world: ApiWorld) -> None:
    one = await deciding(world)
    path = f"/v1/approvals/{one.case.ids[0]}/passkey-options"
    given = (await one.case.alice.post(path, {"decision": "deny"})).json()
    assert given["options"]["challenge"] == b64(sha256(given["canonical"].encode()).digest())
    assert given["options"]["rpId"] == "turngate.test"
    assert given["options"]["userVerification"] == "required"
    [allowed] = given["options"]["allowCredentials"]
    assert allowed == {"type": "public-key", "id": b64(one.authenticator.credential_id)}


BAD = [
    Wrong("another origin", {"origin": "https://evil.test"}),
    Wrong("nobody verified", {"flags": UP}),
    Wrong("another challenge", {"client": {"challenge": b64(bytes(32))}}),
    Wrong("a frame of another site", {"client": {"crossOrigin": True}}),
    Wrong("another rp id", {"rp_id": "evil.test"}),
]


@pytest.mark.parametrize("wrong", BAD, ids=lambda wrong: wrong.id)
async def test_f128_a_bad_assertion_is_a_wrong_signature(world: ApiWorld, wrong: Wrong) -> None:
    one = await deciding(world)
    for name, value in wrong.members.items():
        setattr(one.authenticator, name, value)
    problem(
        await one.post(one.authenticator.sign(await one.canonical())), 401, "decision.signature"
    )
    assert await one.case.status(one.case.ids[0]) == "pending"
    assert await one.case.refusals() == [("decision.signature", None)]


async def test_f128_another_credential_and_a_revoked_one_sign_nothing(world: ApiWorld) -> None:
    one = await deciding(world)
    text = await one.canonical()
    bob, bobs = world.person("bob"), fresh()
    await enrol(bob, bobs)
    for other in (fresh(), bobs):
        problem(await one.post(other.sign(text)), 401, "decision.signature")
    await one.case.alice.delete(f"/v1/passkeys/{one.passkey_id}")
    problem(await one.post(one.authenticator.sign(text)), 401, "decision.signature")


async def test_a_counter_that_stands_still_is_a_copy(world: ApiWorld) -> None:
    one = await deciding(world, 2)
    assert (await one.post(one.authenticator.sign(await one.canonical()))).status_code == 200
    one.authenticator.count = 0
    proof = one.authenticator.sign(await one.canonical(at=1))
    path = f"/v1/approvals/{one.case.ids[1]}/approve"
    problem(await one.case.alice.post(path, {"passkey": proof}), 401, "decision.signature")


async def test_the_checks_keep_their_order(world: ApiWorld) -> None:
    one = await deciding(world, 2)
    nothing: list[Any] = []
    for proof in (None, nothing, {}, "text", {"canonical": "{}", "assertion": {}}):
        problem(await one.post(proof), 422, "decision.malformed")
    both = {"passkey": one.authenticator.sign("{}"), "decision_jws": "a.b.c"}
    path = f"/v1/approvals/{one.case.ids[0]}/approve"
    problem(await one.case.alice.post(path, both), 422, "decision.malformed")
    as_jws = {"decision_jws": one.authenticator.sign(await one.canonical())}
    problem(await one.case.alice.post(path, as_jws), 422, "decision.malformed")
    denial = one.authenticator.sign(await one.canonical("deny"))
    problem(await one.post(denial), 422, "decision.malformed")
    foreign = one.authenticator.sign(await one.canonical(at=1))
    found = problem(await one.post(foreign), 422, "decision.binding")
    assert pointers(found) == ["/approval_id"]
    late = one.authenticator.sign(await one.canonical())
    world.clock.step(901)
    # Its token has run out as well, so she gets another.
    one.case.alice = world.person()
    problem(await one.post(late), 422, "decision.expired")


async def test_a_batch_takes_both_kinds(world: ApiWorld) -> None:
    one = await deciding(world, 2)
    first, second = one.case.ids
    proof = one.authenticator.sign(await one.canonical("deny"))
    body = {
        "decisions": [
            {"approval_id": first, "passkey": proof},
            {"approval_id": second, "decision_jws": await one.case.jws(second)},
        ]
    }
    results = (await one.case.alice.post("/v1/approvals/batch", body)).json()["results"]
    assert [result["approval"]["status"] for result in results] == ["denied", "approved"]


async def test_the_worker_and_an_export_verify_it_again(world: ApiWorld) -> None:
    drives, alice, authenticator = ApiDriver.of(world), world.person(), fresh()
    await enrol(alice, authenticator)
    await alice.agent(
        tools=["files_write"],
        approval={"files_write": "ask"},
        assurance={"tools": {"files_write": "passkey"}},
    )
    run = await alice.run(input='call files_write {"path":"a","content":"x"}\n---\nsay ok')
    run = await drives.until_idle(alice, run)
    [waiting] = run["pause"]["approvals"]
    path = f"/v1/approvals/{waiting['id']}"
    canonical = (await alice.post(f"{path}/passkey-options", {"decision": "approve"})).json()
    proof = authenticator.sign(canonical["canonical"])
    assert (await alice.post(f"{path}/approve", {"passkey": proof})).status_code == 200
    assert (await drives.until_idle(alice, run))["status"] == "completed"
    [begun] = await data_of(alice, run, "tool.started")
    assert begun["covered_by"] == {"kind": "decision", "id": waiting["id"]}
    async with StoredLogs(world.store.everyone).opened(run["conversation_id"]) as log:
        assert log is not None
        report = await judged(log)
    assert (report.decisions, report.findings) == (1, [])
