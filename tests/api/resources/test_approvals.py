"""Approvals over HTTP: what is shown, what is signed, who decides (service.md 5)."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api.asked import NEVER_ISSUED, asked
from tests.support.api.world import pointers, problem

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_approval_is_shown_whole_and_in_its_runs_pause(world: ApiWorld) -> None:
    case = await asked(world)
    [ident] = case.ids
    shown = (await case.alice.get(f"/v1/approvals/{ident}")).json()
    assert shown == {
        "id": ident,
        "status": "pending",
        "superseded_by": None,
        "run_id": case.run["id"],
        "conversation_id": case.run["conversation_id"],
        "turn_id": "turn_1",
        "request_id": "req",
        "call_id": "call_0_0",
        "agent": "helper",
        "tool": "http_post",
        "title": "Post",
        "tool_definition_digest": "e" * 64,
        "args": {"a": 1},
        "args_canonical": '{"a":1}',
        "args_sha256": sha256(b'{"a":1}').hexdigest(),
        "reason": "",
        "required_capabilities": [],
        "missing_capabilities": [],
        "tainted_by": [],
        "risk": {
            "destination": None,
            "idempotent": True,
            "session_allowed": True,
            "outcome_unknown": False,
            "sandbox_escalation": False,
        },
        "worker": None,
        "requested_at": "2026-11-29T12:00:00.000Z",
        "expires_at": None,
        "resolved_at": None,
        "resolved_by": None,
        "required": {"count": 1, "assurance": "key", "roles": ["approver"], "allow_self": True},
        "decisions": [],
        "effective_args": None,
        "effective_args_sha256": None,
    }
    run = (await case.alice.get(f"/v1/runs/{case.run['id']}")).json()
    assert run["status"] == "paused"
    assert [item["id"] for item in run["pause"]["approvals"]] == [ident]
    assert run["pause"]["questions"] == []


async def test_approvals_are_listed_by_status_run_and_conversation(world: ApiWorld) -> None:
    case = await asked(world, 3)
    for query in (
        "status=pending",
        f"run_id={case.run['id']}",
        f"conversation_id={case.run['conversation_id']}&limit=200",
    ):
        page = (await case.alice.get(f"/v1/approvals?{query}")).json()
        assert [item["id"] for item in page["items"]] == case.ids[::-1]
    assert (await case.alice.get("/v1/approvals?status=denied")).json()["items"] == []
    first = (await case.alice.get("/v1/approvals?limit=2")).json()
    rest = (await case.alice.get(f"/v1/approvals?cursor={first['next_cursor']}")).json()
    assert [item["id"] for item in first["items"] + rest["items"]] == case.ids[::-1]


async def test_who_may_decide_reads_and_nobody_else(world: ApiWorld) -> None:
    case = await asked(world)
    [ident] = case.ids
    bob = world.person("bob", roles=("approver",))
    carol = world.person("carol")
    for path in (f"/v1/approvals/{ident}", f"/v1/runs/{case.run['id']}"):
        assert (await bob.get(path)).status_code == 200
        problem(await carol.get(path), 404, "not_found")
    listed = (await bob.get("/v1/approvals")).json()["items"]
    assert [item["id"] for item in listed] == [ident]
    assert (await carol.get("/v1/approvals")).json()["items"] == []


async def test_a_signed_decision_is_taken_once_and_said_again(world: ApiWorld) -> None:
    case = await asked(world)
    [ident] = case.ids
    body = {"decision_jws": await case.jws(ident)}
    first = await case.alice.post(f"/v1/approvals/{ident}/approve", body)
    assert first.status_code == 200
    assert first.json()["persisted"] is True
    approval = first.json()["approval"]
    assert (approval["status"], approval["resolved_by"]) == ("approved", "decision")
    [decision] = approval["decisions"]
    assert (decision["approver"], decision["key_id"], decision["signed"]) == (
        "alice",
        case.kid,
        True,
    )
    again = await case.alice.post(f"/v1/approvals/{ident}/approve", body)
    assert again.json() == {"approval": approval, "persisted": False}
    assert await case.run_status() == "queued"


async def test_a_payload_is_canonical_and_can_be_edited(world: ApiWorld) -> None:
    case = await asked(world)
    [ident] = case.ids
    body = {"decision": "approve", "override_args": {"b": 2, "a": 1}, "note": "ä"}
    offer = (await case.alice.post(f"/v1/approvals/{ident}/payload", body)).json()
    assert offer["payload"]["override_args"] == '{"a":1,"b":2}'
    assert '"note":"ä"' in offer["canonical"]
    assert offer["payload"]["covered_capabilities"] == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/decision"),
        ({"decision": "maybe"}, "/decision"),
        ({"decision": "approve", "scope": "always"}, "/scope"),
        ({"decision": "approve", "override_args": "{}"}, "/override_args"),
        ({"decision": "approve", "sandbox_mode": "none"}, "/sandbox_mode"),
        ({"decision": "approve", "nonce": "x"}, "/nonce"),
        ({"decision": "deny", "scope": "session"}, "/scope"),
        ({"decision": "approve", "note": "x" * 4097}, "/note"),
    ],
)
async def test_a_payload_for_nothing_is_refused(
    world: ApiWorld, body: dict[str, Any], pointer: str
) -> None:
    case = await asked(world)
    answer = await case.alice.post(f"/v1/approvals/{case.ids[0]}/payload", body)
    assert pointers(problem(answer, 422, "request.invalid")) == [pointer]


async def test_f1_an_invented_decision(world: ApiWorld) -> None:
    case = await asked(world, 2)
    real = await case.payload(case.ids[0])
    for_nothing = case.sign(real | {"approval_id": NEVER_ISSUED})
    answer = await case.alice.post(
        f"/v1/approvals/{NEVER_ISSUED}/approve", {"decision_jws": for_nothing}
    )
    problem(answer, 404, "not_found")
    other = case.sign(real | {"approval_id": case.ids[1]})
    answer = await case.alice.post(f"/v1/approvals/{case.ids[0]}/approve", {"decision_jws": other})
    assert pointers(problem(answer, 422, "decision.binding")) == ["/approval_id"]
    assert await case.refusals() == [("decision.binding", "/approval_id")]
    assert await case.status(case.ids[0]) == "pending"


async def test_f2_swapped_arguments(world: ApiWorld) -> None:
    case = await asked(world)
    [ident] = case.ids
    swapped = sha256(b'{"to":"b"}').hexdigest()
    jws = case.sign(await case.payload(ident) | {"args_sha256": swapped})
    answer = await case.alice.post(f"/v1/approvals/{ident}/approve", {"decision_jws": jws})
    assert pointers(problem(answer, 422, "decision.binding")) == ["/args_sha256"]
    assert await case.status(ident) == "pending"
    assert await case.refusals() == [("decision.binding", "/args_sha256")]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decision_jws": None},
        {"decision_jws": 7},
        {"decision_jws": ""},
        {"decision_jws": "a.b.c", "passkey": {}},
    ],
    ids=str,
)
async def test_a_decision_needs_exactly_one_proof(world: ApiWorld, body: dict[str, Any]) -> None:
    case = await asked(world)
    answer = await case.alice.post(f"/v1/approvals/{case.ids[0]}/approve", body)
    problem(answer, 422, "decision.malformed")
    missing = await case.alice.post(f"/v1/approvals/{NEVER_ISSUED}/approve", body)
    problem(missing, 404, "not_found")


async def test_a_decision_posted_to_the_other_path_is_refused(world: ApiWorld) -> None:
    case = await asked(world)
    [ident] = case.ids
    body = {"decision_jws": await case.jws(ident, "deny")}
    answer = await case.alice.post(f"/v1/approvals/{ident}/approve", body)
    assert pointers(problem(answer, 422, "decision.malformed")) == ["/decision"]
    denied = await case.alice.post(f"/v1/approvals/{ident}/deny", body)
    assert denied.json()["approval"]["status"] == "denied"
    late = {"decision_jws": await case.jws(ident)}
    told = problem(
        await case.alice.post(f"/v1/approvals/{ident}/approve", late), 409, "approval.decided"
    )
    assert (told["decided"]["decision"], told["decided"]["by"]) == ("deny", "alice")


async def test_f20_one_of_two_decided(world: ApiWorld) -> None:
    case = await asked(world, 2)
    first = {"decision_jws": await case.jws(case.ids[0])}
    await case.alice.post(f"/v1/approvals/{case.ids[0]}/approve", first)
    assert await case.run_status() == "paused"
    second = {"decision_jws": await case.jws(case.ids[1])}
    await case.alice.post(f"/v1/approvals/{case.ids[1]}/approve", second)
    assert await case.run_status() == "queued"
    again = await case.alice.post(f"/v1/approvals/{case.ids[0]}/approve", first)
    assert again.json()["persisted"] is False


async def test_a_session_approval_is_listed_and_ended_by_its_owner(world: ApiWorld) -> None:
    case = await asked(world)
    [ident] = case.ids
    body = {"decision_jws": await case.jws(ident, scope="session")}
    assert (await case.alice.post(f"/v1/approvals/{ident}/approve", body)).status_code == 200
    path = f"/v1/conversations/{case.run['conversation_id']}/session-approvals"
    page = (await case.alice.get(path)).json()
    assert page == {
        "items": [
            {
                "agent": "helper",
                "tool": "http_post",
                "principal": "alice",
                "covered_capabilities": [],
                "tool_definition_digest": "e" * 64,
                "approval_id": ident,
                "at": "2026-11-29T12:00:00.000Z",
            }
        ],
        "next_cursor": None,
    }
    problem(await case.alice.delete(f"{path}/files_write"), 404, "not_found")
    assert (await case.alice.delete(f"{path}/http_post")).status_code == 204
    assert (await case.alice.get(path)).json()["items"] == []
