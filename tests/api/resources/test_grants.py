"""The life of a remembered grant over HTTP: signed, listed, used, revoked, suspended, expired."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from app.cli.auditing import judged
from app.log.queries import audit_scope
from app.service.statements import Statements
from app.store.log.rebuild import rebuild
from app.store.log.stored_logs import StoredLogs
from app.trust.statement import StatementKind
from tests.api.resources.test_agents import audited
from tests.support.api.grant_holder import Holder, answered
from tests.support.api.world import problem
from tests.support.database.postgres import grant_replayed
from tests.support.log.seals import SERVICE
from tests.trust.signer import b64

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]

ORDERS = {"pointer": "/url", "op": "url_prefix", "value": "https://api.test/orders"}
NOON, ONE = "2026-11-29T12:00:00.000Z", "2026-11-29T13:00:00.000Z"


async def holder(world: ApiWorld) -> Holder:
    """Alice, whose courier may post."""
    alice = world.person()
    await alice.agent("courier", tools=["http_post", "clock_now"])
    return await Holder.of(alice)


async def digest_of(world: ApiWorld, tool: str) -> str:
    tools = answered(await world.person().get("/v1/tools?limit=200"))["items"]
    [digest] = [each["definition_digest"] for each in tools if each["name"] == tool]
    return str(digest)


async def test_the_text_to_sign_says_all_that_is_granted(world: ApiWorld) -> None:
    """turn.md 6.8: a passkey ceremony of the principal; the platform cannot mint one."""
    one = await holder(world)
    given = await one.options(constraints=[ORDERS])
    text = json.loads(given["canonical"])
    assert text == {
        "v": 1,
        "typ": "turngate.grant",
        "tenant": world.tenant,
        "principal": "alice",
        "agent": "courier",
        "tool": "http_post",
        "tool_definition_digest": await digest_of(world, "http_post"),
        "capabilities": ["arbitrary-egress", "mutate-external"],
        "constraints": [ORDERS],
        "nonce": text["nonce"],
        "iat": 1795953600,
        "exp": 1795954200,
        "expires_at": 1795957200,
    }
    options = given["options"]
    assert options["challenge"] == b64(sha256(given["canonical"].encode()).digest())
    assert (options["rpId"], options["userVerification"]) == ("turngate.test", "required")
    assert options["allowCredentials"] == [
        {"type": "public-key", "id": b64(one.authenticator.credential_id)}
    ]
    assert answered(await one.person.get("/v1/grants"))["items"] == []


async def test_a_signed_grant_is_enrolled_and_told_in_the_tenants_log(world: ApiWorld) -> None:
    one = await holder(world)
    proof = await one.signed(constraints=[ORDERS])
    grant = answered(await one.person.post("/v1/grants", proof), 201)
    shown = {
        "id": grant["id"],
        "principal": "alice",
        "agent": "courier",
        "tool": "http_post",
        "tool_definition_digest": await digest_of(world, "http_post"),
        "capabilities": ["arbitrary-egress", "mutate-external"],
        "constraints": [ORDERS],
        "coverage_hash": grant["coverage_hash"],
        "passkey_id": one.passkey_id,
        "state": "active",
        "enrolled_at": NOON,
        "expires_at": ONE,
        "revoked_at": None,
        "suspended_at": None,
        "uses": [],
    }
    assert grant == shown
    assert grant["id"].startswith("grant_")
    assert await one.read(grant["id"]) == shown
    listed = answered(await one.person.get("/v1/grants"))
    assert listed == {"items": [shown], "next_cursor": None}
    [event] = [data for kind, data in await audited(world) if kind == "grant.enrolled"]
    told = {name: value for name, value in shown.items() if name in event["resource"]}
    assert event == {"resource": told, "by": "alice", "passkey_id": one.passkey_id}
    async with world.store.database.session(world.tenant) as session:
        [stored] = await session.live_grants("alice", "courier", world.clock.now())
        [kept] = await session.events_of(audit_scope(world.tenant), ["grant.enrolled"])
    assert stored.evidence == kept.private
    assert json.loads(stored.evidence) == proof


async def test_the_coverage_hash_is_the_same_for_the_same_coverage_alone(world: ApiWorld) -> None:
    one = await holder(world)
    first = await one.grant()
    again = await one.grant(capabilities=["mutate-external", "arbitrary-egress"], expires_in_s=60)
    other = await one.grant(constraints=[ORDERS])
    assert first["coverage_hash"] == again["coverage_hash"] != other["coverage_hash"]


async def test_its_principal_takes_a_grant_back_with_a_passkey(world: ApiWorld) -> None:
    one = await holder(world)
    kept, ended = await one.grant(), await one.grant()
    text = json.loads((await one.revocation(ended["id"]))["canonical"])
    assert text == {
        "v": 1,
        "typ": "turngate.grant-revocation",
        "tenant": world.tenant,
        "principal": "alice",
        "grant_id": ended["id"],
        "coverage_hash": ended["coverage_hash"],
        "nonce": text["nonce"],
        "iat": 1795953600,
        "exp": 1795954200,
    }
    world.clock.step(1)
    revoked = await one.revoke(ended["id"])
    at = "2026-11-29T12:00:01.000Z"
    assert revoked == ended | {"state": "revoked", "revoked_at": at}
    assert [each["state"] for each in answered(await one.person.get("/v1/grants"))["items"]] == [
        "revoked",
        "active",
    ]
    assert await live(world) == [kept["id"]]
    [event] = [data for kind, data in await audited(world) if kind == "grant.revoked"]
    assert (event["resource"]["id"], event["by"]) == (ended["id"], "alice")
    for path in ("revoke-options", "revoke"):
        body = None if path == "revoke-options" else {"canonical": "{}", "assertion": {}}
        again = await one.person.post(f"/v1/grants/{ended['id']}/{path}", body)
        problem(again, 409, "grant.ended")


async def live(world: ApiWorld) -> list[str]:
    async with world.store.database.session(world.tenant) as session:
        found = await session.live_grants("alice", "courier", world.clock.now())
    return [grant.id for grant in found]


async def test_an_admin_suspends_over_the_services_own_signature(world: ApiWorld) -> None:
    """turn.md 6.8: a lost passkey still leaves a way to stop a grant."""
    one, boss = await holder(world), world.person("boss", scopes=("admin",))
    grant = await one.grant()
    suspended = answered(await boss.post(f"/v1/grants/{grant['id']}/suspend"))
    assert suspended == grant | {"state": "suspended", "suspended_at": NOON}
    assert await live(world) == []
    problem(await boss.post(f"/v1/grants/{grant['id']}/suspend"), 409, "grant.ended")
    async with world.store.database.session(world.tenant) as session:
        [event] = await session.events_of(audit_scope(world.tenant), ["grant.suspended"])
    assert event.data["by"] == "boss"
    assert event.private is not None
    statements = Statements(SERVICE, world.store.service_keys)
    said = await statements.verified(StatementKind.GRANT_SUSPENSION, event.private.decode())
    assert said == {
        "tenant": world.tenant,
        "grant_id": grant["id"],
        "coverage_hash": grant["coverage_hash"],
        "by": "boss",
    }
    # It is not its principal's word, which may follow.
    assert (await one.revoke(grant["id"]))["state"] == "revoked"


async def test_a_grant_expires(world: ApiWorld) -> None:
    one = await holder(world)
    grant = await one.grant(expires_in_s=60)
    world.clock.step(59.999)
    assert await live(world) == [grant["id"]]
    world.clock.step(0.001)
    assert await live(world) == []
    assert (await one.read(grant["id"]))["state"] == "expired"
    problem(await one.person.post(f"/v1/grants/{grant['id']}/revoke-options"), 409, "grant.ended")
    boss = world.person("boss", scopes=("admin",))
    problem(await boss.post(f"/v1/grants/{grant['id']}/suspend"), 409, "grant.ended")


@pytest.mark.parametrize("way", ["revoked", "reset"])
async def test_a_grant_goes_with_the_passkey_that_signed_it(world: ApiWorld, way: str) -> None:
    one, boss = await holder(world), world.person("boss", scopes=("admin",))
    grant = await one.grant()
    world.clock.step(1)
    if way == "revoked":
        gone = await world.person().delete(f"/v1/passkeys/{one.passkey_id}")
    else:
        gone = await boss.post("/v1/principals/alice/reset-keys")
    assert gone.status_code == 204
    assert await live(world) == []
    at = "2026-11-29T12:00:01.000Z"
    assert await one.read(grant["id"]) == grant | {"state": "revoked", "revoked_at": at}


async def test_where_it_was_used_is_shown(world: ApiWorld) -> None:
    one = await holder(world)
    grant = await one.grant()
    run = answered(await one.person.post("/v1/runs", {"agent": "courier", "input": "say hi"}), 201)
    async with world.store.database.transaction(world.tenant) as tx:
        await tx.lock(run["conversation_id"])
        events = [grant_replayed(run["id"], grant["id"], f"call_0_{at}") for at in (0, 1)]
        await tx.append(run["conversation_id"], events, now=world.clock.now())
    use = {"conversation_id": run["conversation_id"], "run_id": run["id"], "at": NOON}
    uses = [use | {"seq": 5, "call_id": "call_0_1"}, use | {"seq": 4, "call_id": "call_0_0"}]
    assert (await one.read(grant["id"]))["uses"] == uses
    [listed] = answered(await one.person.get("/v1/grants"))["items"]
    assert listed["uses"] == uses


async def test_a_page_of_grants_goes_on_where_the_last_ended(world: ApiWorld) -> None:
    one = await holder(world)
    made = [(await one.grant())["id"] for _ in range(3)]
    first = answered(await one.person.get("/v1/grants?limit=2"))
    rest = answered(await one.person.get(f"/v1/grants?limit=2&cursor={first['next_cursor']}"))
    shown = [each["id"] for each in first["items"] + rest["items"]]
    assert (shown, rest["next_cursor"]) == (made[::-1], None)


async def test_a_retry_with_its_key_is_answered_as_at_first(world: ApiWorld) -> None:
    one = await holder(world)
    proof = await one.signed()
    first = await one.person.post("/v1/grants", proof, idempotency_key='"g1"')
    again = await one.person.post("/v1/grants", proof, idempotency_key='"g1"')
    assert (again.status_code, again.json()) == (201, first.json())
    assert len(await live(world)) == 1


async def test_grants_made_over_http_equal_their_rebuild_and_prove_themselves(
    world: ApiWorld, dsn: str
) -> None:
    """`audit verify` judges the tenant's own log by the same code."""
    one, boss = await holder(world), world.person("boss", scopes=("admin",))
    first, second = await one.grant(constraints=[ORDERS]), await one.grant()
    await one.revoke(first["id"])
    answered(await boss.post(f"/v1/grants/{second['id']}/suspend"))
    assert await rebuild(dsn, tenant=world.tenant) == []
    own_log = audit_scope(world.tenant).conversation_id
    async with StoredLogs(world.store.everyone).opened(own_log) as log:
        assert log is not None
        assert [passkey.id for passkey in log.passkeys] == [one.passkey_id]
        assert (await judged(log)).findings == []
