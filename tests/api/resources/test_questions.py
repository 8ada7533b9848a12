"""Questions over HTTP: paused, shown, answered, refused (service.md 5)."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api.driver import ApiDriver
from tests.support.api.world import ApiWorld, Person, pointers, problem

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTIONS = [
    {
        "header": "When",
        "question": "When is it to go out?",
        "options": [{"label": "today"}, {"label": "tomorrow", "recommended": True}],
    },
    {
        "header": "Who",
        "question": "Who is to get it?",
        "options": [{"label": "Ann", "consequence": "she waits for it"}, {"label": "Ben"}],
    },
]
ASK = f"call ask_question {json.dumps({'questions': QUESTIONS})}\n---\nsay done"


class Asked:
    """A run of alice's that waits for answers."""

    def __init__(self, world: ApiWorld, alice: Person, run: Mapping[str, Any]) -> None:
        self.world = world
        self.alice = alice
        self.run = run
        ((item,),) = (run["pause"]["questions"],)
        self.item: dict[str, Any] = item
        self.path = f"/v1/questions/{item['id']}"

    async def answer(self, *answers: Any, by: Person | None = None, **more: Any) -> Any:
        body = {"answers": list(answers)}
        return await (by or self.alice).post(f"{self.path}/answer", body, **more)


async def asking(world: ApiWorld, **agent: Any) -> Asked:
    alice = world.person("alice")
    await alice.agent(tools=["ask_question"], **agent)
    run = await ApiDriver.of(world).until_idle(alice, await alice.run(input=ASK))
    return Asked(world, alice, run)


async def test_a_paused_run_names_its_question_and_the_question_is_shown(world: ApiWorld) -> None:
    asked = await asking(world)
    assert asked.run["status"] == "paused"
    assert asked.item.keys() == {"id", "call_id", "expires_at"}
    shown = (await asked.alice.get(asked.path)).json()
    assert shown.keys() == {
        "id",
        "status",
        "run_id",
        "call_id",
        "questions",
        "asked_at",
        "expires_at",
    }
    assert (shown["status"], shown["run_id"]) == ("pending", asked.run["id"])
    assert shown["expires_at"] == asked.item["expires_at"]
    assert shown["questions"][1] == {
        "index": 1,
        "header": "Who",
        "question": "Who is to get it?",
        "options": [
            {"label": "Ann", "consequence": "she waits for it", "recommended": False},
            {"label": "Ben", "consequence": "", "recommended": False},
        ],
        "answer": None,
    }


async def test_answers_in_part_and_in_whole(world: ApiWorld) -> None:
    asked = await asking(world)
    first = await asked.answer({"index": 0, "option": 1})
    assert first.status_code == 200
    assert first.json()["status"] == "pending"
    assert first.json()["questions"][0]["answer"] == {
        "option": 1,
        "label": "tomorrow",
        "text": None,
        "declined": False,
        "answered_by": "alice",
    }
    problem(await asked.answer({"index": 0, "option": 0}), 409, "question.answered")
    last = (await asked.answer({"index": 1, "text": "both of them"})).json()
    assert last["status"] == "answered"
    assert last["questions"][1]["answer"]["text"] == "both of them"
    done = await ApiDriver.of(world).until_idle(asked.alice, dict(asked.run))
    assert (done["status"], done["pause"]) == ("completed", None)
    problem(await asked.answer({"index": 0, "option": 0}), 409, "question.answered")


@pytest.mark.parametrize(
    ("answer", "pointer"),
    [
        ({"option": 0}, "/answers/0/index"),
        ({"index": -1, "option": 0}, "/answers/0/index"),
        ({"index": 2, "option": 0}, "/answers/0/index"),
        ({"index": 0, "option": 2}, "/answers/0/option"),
        ({"index": 0, "option": "0"}, "/answers/0/option"),
        ({"index": 0}, "/answers/0"),
        ({"index": 0, "option": 0, "text": "now"}, "/answers/0"),
        ({"index": 0, "declined": False}, "/answers/0/declined"),
        ({"index": 0, "text": " "}, "/answers/0/text"),
        ({"index": 0, "text": "x" * 4001}, "/answers/0/text"),
        ({"index": 0, "other": 1}, "/answers/0/other"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value)[:40],
)
async def test_an_answer_of_another_form_is_refused_with_its_place(
    world: ApiWorld, answer: dict[str, Any], pointer: str
) -> None:
    asked = await asking(world)
    refused = problem(await asked.answer(answer), 422, "request.invalid")
    assert pointer in pointers(refused)


async def test_a_question_is_answered_once_in_a_request(world: ApiWorld) -> None:
    asked = await asking(world)
    twice = await asked.answer({"index": 0, "option": 0}, {"index": 0, "option": 1})
    assert pointers(problem(twice, 422, "request.invalid")) == ["/answers/1/index"]
    assert pointers(problem(await asked.answer(), 422, "request.invalid")) == ["/answers"]


async def test_the_list_is_paged_and_filtered(world: ApiWorld) -> None:
    first = await asking(world)
    second = await asking(world)
    alice = first.alice
    await second.answer({"index": 0, "option": 0}, {"index": 1, "option": 0})
    page = (await alice.get("/v1/questions?limit=1")).json()
    assert [one["id"] for one in page["items"]] == [second.item["id"]]
    rest = (await alice.get(f"/v1/questions?limit=1&cursor={page['next_cursor']}")).json()
    assert [one["id"] for one in rest["items"]] == [first.item["id"]]
    assert rest["next_cursor"] is None
    pending = (await alice.get("/v1/questions?status=pending")).json()
    assert [one["id"] for one in pending["items"]] == [first.item["id"]]
    of_run = (await alice.get(f"/v1/questions?run_id={second.run['id']}")).json()
    assert [one["status"] for one in of_run["items"]] == ["answered"]
    problem(await alice.get("/v1/questions?status=open"), 422, "request.invalid")


async def test_scopes(world: ApiWorld) -> None:
    """Reading needs `runs:read`; answering `runs:write` or `approvals:decide`."""
    asked = await asking(world)
    one, both = {"index": 0, "option": 0}, {"index": 1, "option": 0}
    reader = world.person("alice", scopes=("runs:read",))
    decider = world.person("alice", scopes=("approvals:decide",))
    writer = world.person("alice", scopes=("runs:write",))
    assert (await reader.get(asked.path)).status_code == 200
    problem(await reader.post(f"{asked.path}/answer", {"answers": [one]}), 403, "auth.scope")
    problem(await decider.get(asked.path), 403, "auth.scope")
    assert (await asked.answer(one, by=decider)).status_code == 200
    assert (await asked.answer(both, by=writer)).status_code == 200


async def test_who_is_out_of_reach_finds_nothing(world: ApiWorld) -> None:
    asked = await asking(world)
    bob, one = world.person("bob"), {"index": 0, "option": 0}
    problem(await bob.get(asked.path), 404, "not_found")
    problem(await asked.answer(one, by=bob), 404, "not_found")
    assert (await bob.get("/v1/questions")).json()["items"] == []
    problem(await asked.alice.get("/v1/questions/ques_none"), 404, "not_found")


async def test_a_principal_of_the_conversation_is_told_who_may_answer(world: ApiWorld) -> None:
    asked = await asking(world)
    conversation = asked.run["conversation_id"]
    shared = {"participants": ["carol"]}
    await asked.alice.patch(f"/v1/conversations/{conversation}", shared)
    carol, one = world.person("carol"), {"index": 0, "option": 0}
    assert (await carol.get(asked.path)).status_code == 200
    problem(await asked.answer(one, by=carol), 403, "decision.approver")


async def test_an_approver_finds_and_answers_it(world: ApiWorld) -> None:
    asked = await asking(world, approvers={"roles": ["boss"]})
    dora = world.person("dora", roles=("boss",))
    (found,) = (await dora.get("/v1/questions?status=pending")).json()["items"]
    assert found["id"] == asked.item["id"]
    answered = await asked.answer({"index": 0, "option": 0}, by=dora)
    assert answered.json()["questions"][0]["answer"]["answered_by"] == "dora"


async def test_the_same_request_again_gets_its_first_answer(world: ApiWorld) -> None:
    asked = await asking(world)
    one, key = {"index": 0, "option": 0}, "answer-1"
    first, again = await asyncio.gather(
        asked.answer(one, Idempotency_Key=key), asked.answer(one, Idempotency_Key=key)
    )
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
