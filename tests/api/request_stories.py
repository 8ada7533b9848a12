"""Stories in which people send every write that the API has; a worker drives what they begin."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from app.ids import Identity
from app.runctx.memory import ConversationTurn, MemorySettings
from tests.api.resources.test_skills import body as skill
from tests.api.resources.test_skills import folder, zipped
from tests.support.api.grant_holder import COURIER
from tests.support.api.killed_requests import Told
from tests.support.api.world import EVERYDAY, problem
from tests.support.authenticator import Authenticator
from tests.support.stepped_clock import NOON
from tests.trust.signer import Signer, compact

if TYPE_CHECKING:
    from tests.support.api.world import Person

Story = Callable[[Told], Awaitable[None]]
WRITE = 'call files_write {"path":"a","content":"x"}'
TWO = [{"header": "A", "question": q, "options": [{"label": "x"}, {"label": "y"}]} for q in "ab"]
ASK = f"call ask_question {json.dumps({'questions': TWO})}"
GUARDED: dict[str, Any] = {"model": "script", "tools": ["files_write", "ask_question"]} | {
    "approval": {"files_write": "ask"},
}
ALICE, BOB, NEWER = Signer.of(3_100_001), Signer.of(3_100_002), Signer.of(3_100_003)
ADMIN = (*EVERYDAY, "admin")


async def the_main_job(told: Told) -> None:
    """Two people must approve, so the first decision resolves nothing."""
    alice, bob = told.person(), told.person("bob", roles=("approver",))
    two = {"approvers": {"roles": ["approver"], "count": 2}}
    await told.send(alice, "put_agent", GUARDED | two, name="helper")
    keys = {
        who.sub: (await told.send(who, "register_key", who.enrolment(signer))).json()["id"]
        for who, signer in ((alice, ALICE), (bob, BOB))
    }
    run = await begun(told, alice, f"{WRITE}\n---\nsay ok")
    (asked,) = run["pause"]["approvals"]
    for who, signer in ((alice, ALICE), (bob, BOB)):
        jws = await told.decide(who, signer, keys[who.sub], asked)
        await told.send(who, "approve_approval", {"decision_jws": jws}, approval_id=asked["id"])
    run = await told.drive(alice, run)
    assert run["answer"]["answer"] == "ok"


async def answers_and_ends(told: Told) -> None:
    """Two answers and a denial; then a run that is cancelled, and one that is interrupted."""
    alice = told.person()
    await told.send(alice, "put_agent", GUARDED, name="helper")
    kid = await alice.key(ALICE)
    run = await begun(told, alice, f"{ASK}\n{WRITE}\n---\nsay ok")
    ((asked,), (question,)) = run["pause"]["approvals"], run["pause"]["questions"]
    for index in (0, 1):
        answer = {"answers": [{"index": index, "option": 0}]}
        await told.send(alice, "answer_question", answer, question_id=question["id"])
    jws = await told.decide(alice, ALICE, kid, asked, decision="deny")
    await told.send(alice, "deny_approval", {"decision_jws": jws}, approval_id=asked["id"])
    assert (await told.drive(alice, run))["status"] == "completed"
    here = {"conversation_id": run["conversation_id"]}
    second = await begun(told, alice, f"{ASK}\n{WRITE}\n---\nsay ok", **here)
    await told.send(alice, "cancel_run", run_id=second["id"])
    third = await begun(told, alice, f"{WRITE}\n---\nsay ok", **here)
    last = await begun(told, alice, "say ok", on_busy="interrupt", **here)
    assert (await alice.get(f"/v1/runs/{third['id']}")).json()["status"] == "cancelled"
    assert last["status"] == "completed"


async def a_conversation(told: Told) -> None:
    """Its title, its files, its standing consent, its memory; a batch commits item by item."""
    alice = told.person()
    await told.send(alice, "put_agent", GUARDED, name="helper")
    kid = await alice.key(ALICE)
    made = await told.send(alice, "create_conversation", {"title": "a"})
    here = {"conversation_id": made.json()["id"]}
    await told.send(alice, "update_conversation", {"title": "b"}, **here)
    query = f"?conversation_id={here['conversation_id']}"
    art = (await told.send(alice, "create_artifact", b"text", query=query)).json()
    await told.send(alice, "delete_artifact", artifact_id=art["id"])
    run = await begun(told, alice, f"{WRITE}\n{WRITE}\n---\nsay ok", **here)
    batch = [
        {"approval_id": one["id"], "decision_jws": await told.decide(alice, ALICE, kid, one)}
        for one in run["pause"]["approvals"]
    ]
    decided = (await told.send(alice, "decide_batch", {"decisions": batch})).json()["results"]
    assert [one["status"] for one in decided] == [200, 200]
    assert (await told.drive(alice, run))["status"] == "completed"
    run = await begun(told, alice, f"{WRITE}\n---\nsay ok", **here)
    (asked,) = run["pause"]["approvals"]
    jws = await told.decide(alice, ALICE, kid, asked, scope="session")
    await told.send(alice, "approve_approval", {"decision_jws": jws}, approval_id=asked["id"])
    await told.drive(alice, run)
    await told.send(alice, "end_session_approval", **here, tool="files_write")
    remembers = MemorySettings(strategy="truncation")
    memory = told.living.store.memory(remembers, model="script")
    turn = ConversationTurn(user_message="a", assistant_response="b", at=NOON, run=run["id"])
    await memory.add_turn(Identity(alice.tenant, "alice", here["conversation_id"]), turn)
    await told.send(alice, "delete_memory", **here)


async def keys_and_grants(told: Told) -> None:
    """Keys and passkeys come and go, and what a passkey granted is revoked or suspended."""
    alice, root = told.person(), told.person("root", scopes=ADMIN)
    await told.send(alice, "put_agent", {"model": "script", "tools": ["http_post"]}, name="courier")
    first = (await told.send(alice, "register_key", alice.enrolment(ALICE))).json()["id"]
    endorsed = {"endorsement_jws": alice.endorsement(NEWER, first, ALICE)}
    newer = await told.send(alice, "register_key", alice.enrolment(NEWER) | endorsed)
    await told.send(alice, "revoke_key", key_id=newer.json()["id"])
    phone = Authenticator.of(3_100_004)
    options = (await alice.post("/v1/passkeys/registration-options")).json()
    word = alice.statement(ALICE, "turngate.key-endorsement", thumbprint=phone.thumbprint)
    head = {"alg": "ES256", "kid": first, "typ": "turngate-key-endorsement+jws"}
    credential = {"label": "phone", "credential": phone.create(options)}
    body = credential | {"endorsement_jws": ALICE.jws(head, compact(word))}
    passkey = (await told.send(alice, "register_passkey", body)).json()["id"]
    ids = []
    for _ in range(2):
        wanted = (await alice.post("/v1/grants/options", COURIER)).json()["canonical"]
        ids.append((await told.send(alice, "enrol_grant", phone.sign(wanted))).json()["id"])
    wanted = (await alice.post(f"/v1/grants/{ids[0]}/revoke-options")).json()["canonical"]
    await told.send(alice, "revoke_grant", phone.sign(wanted), grant_id=ids[0])
    await told.send(root, "suspend_grant", grant_id=ids[1])
    await told.send(alice, "revoke_passkey", passkey_id=passkey)
    await told.send(root, "reset_keys", sub="alice")


async def administration(told: Told) -> None:
    """What a tenant has: agents, skills, servers of tools, and tokens that are no longer taken."""
    root = told.person("root", scopes=ADMIN)
    await told.send(root, "put_agent", {"model": "script"}, name="helper")
    await told.send(root, "put_agent", {"model": "script", "max_steps": 2}, name="helper")
    await told.send(root, "delete_agent", name="helper")
    await told.send(root, "put_skill", skill(), name="release")
    await told.send(root, "import_skills", zipped(folder("ship")))
    await told.send(root, "delete_skill", name="release")
    server = {"name": "box", "transport": "http", "url": told.tools_url}
    await told.send(root, "register_mcp_server", server)
    await told.send(root, "refresh_mcp_server", name="box")
    await told.send(root, "delete_mcp_server", name="box")
    gone = {"sub": "mallory", "before": "2026-11-29T11:00:00Z"}
    await told.send(root, "revoke_tokens", gone)


async def begun(told: Told, person: Person, text: str, **members: Any) -> dict[str, Any]:
    """A run as it is when a worker has done what it can."""
    wanted = {"agent": "helper", "input": text} | members
    return await told.drive(person, (await told.send(person, "create_run", wanted)).json())


async def a_refusal(told: Told) -> None:
    """Somebody else's signature, and then a denial."""
    alice = told.person()
    await alice.agent(**GUARDED)
    kid = await alice.key(ALICE)
    run = await begun(told, alice, f"{WRITE}\n---\nsay ok")
    (asked,) = run["pause"]["approvals"]
    here = {"approval_id": asked["id"]}
    forged = await told.decide(alice, BOB, kid, asked)
    problem(await told.send(alice, "approve_approval", {"decision_jws": forged}, **here), *FORGED)
    jws = await told.decide(alice, ALICE, kid, asked, decision="deny")
    await told.send(alice, "deny_approval", {"decision_jws": jws}, **here)
    assert (await told.drive(alice, run))["status"] == "completed"


FORGED = (401, "decision.signature")
STORIES: dict[str, Story] = {
    "the main job": the_main_job,
    "answers and ends": answers_and_ends,
    "a conversation": a_conversation,
    "keys and grants": keys_and_grants,
    "administration": administration,
}
