"""Whoever takes no part finds nothing: every operation of the description is asked (service.md 2).

An operation that names something of a tenant is walked with the ids of Alice's things, by strangers
first and then by her: 404 for them, and for her anything else. What is walked is read from the
description, so a new operation fails here until `Things` has what its path names, or one of the
tables below says why it names nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest
import pytest_asyncio

from app.log.servers import McpServerRecord
from tests.support.api.described import DOCUMENT, Operation, operations
from tests.support.api.driver import KEY, ApiDriver, decide
from tests.support.api.grant_holder import Holder, answered
from tests.support.api.world import EVERYDAY
from tests.support.stepped_clock import NOON
from tests.trust.signer import compact

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from tests.support.api.world import ApiWorld, Person

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]

ADMIN: Final = (*EVERYDAY, "admin")

# Why an operation names nothing that is another's.
NAMES_NOTHING: Final = {
    "makes something of the caller's own": (
        "create_conversation register_key prepare_passkey register_passkey enrol_grant "
        "register_mcp_server import_skills"
    ),
    "makes the agent, skill or grant of one's own tenant, whatever others have by that name": (
        "put_agent put_skill prepare_grant"
    ),
    "speaks of any subject of one's own tenant, known or not": "reset_keys revoke_tokens",
    "the same for everybody": "get_schema get_health get_readiness get_metrics get_service_keys",
}

# Why somebody of the same tenant is not answered 404.
SHARED: Final = {
    "agents, tools and skills are the tenant's": (
        "get_agent delete_agent get_skill delete_skill "
        "get_mcp_server delete_mcp_server refresh_mcp_server"
    ),
    "an administrator's alone, and 403 for others": "suspend_grant",
}

# What a request says besides ids; where nothing is said here, it has no body.
BODIES: Final[Mapping[str, Any]] = {
    "create_artifact": b"text",
    "update_conversation": {"title": "mine"},
    "prepare_decision": {"decision": "approve"},
    "prepare_passkey_decision": {"decision": "approve"},
    "approve_approval": {"decision_jws": "a.b.c"},
    "deny_approval": {"decision_jws": "a.b.c"},
    "answer_question": {"answers": [{"index": 0, "option": 0}]},
    "revoke_grant": {"canonical": "{}", "assertion": {}},
}

QUESTION: Final = {
    "header": "When",
    "question": "When?",
    "options": [{"label": "a"}, {"label": "b"}],
}
PROGRAM: Final = "\n".join(
    (
        'call files_write {"path":"a","content":"x"}',
        'call http_post {"url":"https://api.test/","body":"x"}',
        f"call ask_question {json.dumps({'questions': [QUESTION]})}",
    )
)


def split(table: Mapping[str, str]) -> set[str]:
    return {name for names in table.values() for name in names.split()}


def walked(all_of_them: list[Operation]) -> list[Operation]:
    """Those that have to find what they name."""
    nothing = split(NAMES_NOTHING)
    return [each for each in all_of_them if not each.is_list and each.name not in nothing]


OPERATIONS: Final = operations(DOCUMENT)
LISTS: Final = [
    each for each in OPERATIONS if each.is_list and each.name not in split(NAMES_NOTHING)
]


@dataclass(frozen=True)
class Things:
    """What Alice has, by the part of a path that names it or the parameter that does."""

    ids: Mapping[str, str]

    @property
    def told(self) -> list[str]:
        """What nobody else may be told of: ids, and names that only she would choose."""
        return [value for value in self.ids.values() if len(value) > len("files_write")]

    def path(self, operation: Operation) -> str:
        """The path with her ids. Raises KeyError for a part that nobody has thought of."""
        parts = operation.path.split("/")
        named = [
            self.ids[f"{before}/{part}"] if part.startswith("{") else part
            for before, part in zip(["", *parts], parts, strict=False)
        ]
        query = "&".join(f"{name}={self.ids[name]}" for name in operation.query if name in self.ids)
        return "/".join(named) + (f"?{query}" if query else "")

    def body(self, operation: Operation) -> Any:
        """A body with her ids, where there is one."""
        match operation.name:
            case "create_run":
                talk = self.ids["conversation_id"]
                return {"agent": "greeter", "input": "say hi", "conversation_id": talk}
            case "decide_batch":
                ident = self.ids["approvals/{approval_id}"]
                return {"decisions": [{"approval_id": ident, "decision_jws": "a.b.c"}]}
            case name:
                return BODIES.get(name)


async def things(alice: Person) -> Things:
    """One of everything, with a run that waits for a decision and an answer."""
    holder = await Holder.of(alice)
    word = holder.authenticator.sign(compact(alice.statement(KEY, "turngate.key-endorsement")))
    enrolment = alice.enrolment(KEY) | {"endorsement_passkey": word}
    key_id = answered(await alice.post("/v1/keys", enrolment), 201)["id"]
    skill = {"trigger": "t", "steps": ["s"], "origin": "pack", "scope": "tenant"}
    answered(await alice.put("/v1/skills/alices-skill", skill), 201)
    async with alice.world.store.database.transaction(alice.tenant) as tx:
        assert await tx.add_mcp_server(server(alice.tenant))
    ids = await paused(alice, key_id)
    return Things(
        ids
        | {
            "events/{seq}": "1",
            "session-approvals/{tool}": "files_write",
            "agents/{name}": "alices-courier",
            "keys/{key_id}": key_id,
            "passkeys/{passkey_id}": holder.passkey_id,
            "grants/{grant_id}": (await holder.grant(agent="alices-courier"))["id"],
            "mcp-servers/{name}": "alices-server",
            "skills/{name}": "alices-skill",
            "q": "x",
        }
    )


async def paused(alice: Person, key_id: str) -> dict[str, str]:
    """A run that waits for a decision and an answer, after one that lasts for the session."""
    asks = {"files_write": "ask", "http_post": "ask"}
    await alice.agent("greeter")
    await alice.agent("alices-courier", tools=[*asks, "ask_question"], approval=asks)
    run = await alice.run("alices-courier", input=PROGRAM)
    pause = (await ApiDriver.of(alice.world).until_idle(alice, run))["pause"]
    [write, post], [question] = pause["approvals"], pause["questions"]
    await decide(alice, key_id, write["id"], "approve", scope="session")
    talk = run["conversation_id"]
    place = f"/v1/artifacts?conversation_id={talk}"
    artifact = await alice.post(place, b"x", Content_Type="text/plain")
    return {
        "runs/{run_id}": run["id"],
        "run_id": run["id"],
        "conversations/{conversation_id}": talk,
        "conversation_id": talk,
        "approvals/{approval_id}": post["id"],
        "questions/{question_id}": question["id"],
        "artifacts/{artifact_id}": answered(artifact, 201)["id"],
    }


def server(tenant: str) -> McpServerRecord:
    return McpServerRecord(
        tenant=tenant,
        name="alices-server",
        transport="stdio",
        url=None,
        command="nothing",
        headers={},
        registered=True,
        profile={},
        tools=(),
        refused=(),
        why_not="gone",
        created_at=NOON,
        listed_at=NOON,
    )


async def walk(person: Person, of: Things, *, without: Set[str] = frozenset()) -> dict[str, int]:
    """What every operation answers a person who names Alice's things."""
    found = {}
    for operation in walked(OPERATIONS):
        if operation.name in without:
            continue
        more = {"Content_Type": "text/plain"} if operation.name == "create_artifact" else {}
        method, path, body = operation.method.upper(), of.path(operation), of.body(operation)
        answer = await person.ask(method, path, body, **more)
        found[operation.name] = answer.status_code
        if operation.name == "decide_batch":
            # A batch never fails as a whole; each of its results says how it went.
            [found[operation.name]] = [each["status"] for each in answer.json()["results"]]
    return found


async def seen(person: Person, of: Things) -> dict[str, set[str]]:
    """What of Alice's things the lists tell, all of them and with the filters that name hers."""
    found = {}
    for operation in LISTS:
        answers = [await person.get(path) for path in (operation.path, of.path(operation))]
        assert {answer.status_code for answer in answers} <= {200, 403}
        found[operation.name] = {told for told in of.told for each in answers if told in each.text}
    return found


@pytest_asyncio.fixture(loop_scope="session")
async def alice(world: ApiWorld) -> Person:
    return world.person(scopes=ADMIN, roles=("approver",))


@pytest_asyncio.fixture(loop_scope="session")
async def of(alice: Person) -> Things:
    return await things(alice)


@pytest_asyncio.fixture(loop_scope="session")
async def far(world: ApiWorld) -> Person:
    """Somebody of another tenant with Alice's name and every right there."""
    other = f"{world.tenant}-other"
    person = world.person(scopes=ADMIN, roles=("approver",), tenant=other)
    await person.agent("greeter")
    return person


async def test_every_operation_is_walked_or_a_table_says_why_not() -> None:
    names = {each.name for each in OPERATIONS}
    assert split(NAMES_NOTHING) | split(SHARED) | BODIES.keys() <= names
    assert [each.name for each in walked(OPERATIONS) if not each.names_something] == []


async def test_an_operation_that_nobody_thought_of_is_noticed() -> None:
    paths = {
        "/v1/widgets": {"post": {"operationId": "create_widget"}},
        "/v1/widgets/{widget_id}": {"get": {"operationId": "get_widget"}},
    }
    makes, reads = walked(operations({"paths": paths}))
    assert not makes.names_something
    with pytest.raises(KeyError, match=r"widgets/\{widget_id\}"):
        Things({}).path(reads)


async def test_another_tenant_finds_nothing_by_its_id(
    alice: Person, of: Things, far: Person
) -> None:
    answers = await walk(far, of)
    assert answers == dict.fromkeys(answers, 404)
    assert len(answers) > 35
    # Whatever else she is told: it was there all the time.
    assert 404 not in (await walk(alice, of)).values()


async def test_whoever_takes_no_part_in_it_finds_nothing_by_its_id(
    world: ApiWorld, of: Things
) -> None:
    """A colleague has every everyday right and no role."""
    answers = await walk(world.person("carol"), of, without=split(SHARED))
    assert answers == dict.fromkeys(answers, 404)


async def test_no_list_tells_a_stranger_of_it(
    world: ApiWorld, alice: Person, of: Things, far: Person
) -> None:
    assert not any((await seen(far, of)).values())
    shared = {"list_agents", "list_tools", "list_mcp_servers", "list_skills"}
    told = await seen(world.person("carol"), of)
    assert {name for name, found in told.items() if found} <= shared
    everything = await seen(alice, of)
    assert {name for name, found in everything.items() if not found} <= {"list_tools"}


async def test_the_same_names_in_another_tenant_touch_nothing(
    alice: Person, of: Things, far: Person
) -> None:
    kept = ("/v1/agents", "/v1/skills", "/v1/keys", "/v1/passkeys", "/v1/runs", "/v1/grants")
    before = [(await alice.get(path)).json() for path in kept]
    assert (await far.put("/v1/agents/alices-courier", {"model": "script"})).status_code == 201
    skill = {"trigger": "other", "steps": ["s"], "origin": "pack", "scope": "tenant"}
    assert (await far.put("/v1/skills/alices-skill", skill)).status_code == 201
    assert (await far.post("/v1/principals/alice/reset-keys")).status_code == 204
    ended = {"sub": "alice", "before": "2026-11-29T12:00:00Z"}
    assert (await far.post("/v1/revocations", ended)).status_code == 204
    assert [(await alice.get(path)).json() for path in kept] == before
