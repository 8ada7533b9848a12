"""Agents whose answers have a form, as a client sees their runs (agent-run.md 7, service.md 3)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api.driver import KEY, ApiDriver, data_of, decide
from tests.support.api.world import problem

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld, Person

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
ROME = 'call final_result {"city":"Rome","days":3}'
PAYLOAD = {"city": "Rome", "days": 3}
WRITE = 'call files_write {"path":"a","content":"x"}'


async def driven(world: ApiWorld, alice: Person, *steps: str, **members: Any) -> dict[str, Any]:
    await alice.agent(output_schema=SCHEMA, **members)
    run = await alice.run(input="\n---\n".join(steps))
    return await ApiDriver.of(world).until_idle(alice, run)


async def settled(alice: Person, run: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["tool"], one["outcome"]) for one in await data_of(alice, run, "tool.settled")]


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "array"}, "/output_schema/type"),
        ({"type": "objekt"}, "/output_schema"),
        ({"$ref": "https://example.com/schema.json"}, "/output_schema"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "/output_schema"),
    ],
)
async def test_a_schema_that_does_not_hold_is_refused(
    world: ApiWorld, schema: dict[str, Any], pointer: str
) -> None:
    answer = await world.person().put(
        "/v1/agents/formal", {"model": "script", "output_schema": schema}
    )
    refused = problem(answer, 422, "agent.invalid")
    assert [fault["pointer"] for fault in refused["errors"]] == [pointer]


async def test_the_arguments_of_the_output_tool_are_the_answer(world: ApiWorld) -> None:
    """A call beside it does not run, and nobody is asked about either."""
    alice = world.person()
    run = await driven(
        world, alice, f"{ROME}\n{WRITE}", tools=["files_write"], approval={"*": "ask"}
    )
    assert (run["status"], run["pause"]) == ("completed", None)
    assert run["answer"] == {
        "answer": '{"city":"Rome","days":3}',
        "finish_reason": "goal",
        "tool_calls_seen": 0,
        "answer_payload": PAYLOAD,
    }
    assert await settled(alice, run) == [("final_result", "answered"), ("files_write", "cancelled")]
    (completed,) = await data_of(alice, run, "run.completed")
    assert completed["answer"] == run["answer"]
    assert await data_of(alice, run, "call.gated") == []


async def test_what_does_not_fit_is_asked_for_once_more(world: ApiWorld) -> None:
    """Whatever was streamed of a refused answer is shown to nobody as one."""
    alice = world.person()
    for first, outcome in [
        ("rawcall final_result c1 {broken", [("final_result", "malformed_arguments")]),
        ('call final_result {"city":"Rome"}', [("final_result", "invalid_arguments")]),
        ("say Rome, for three days", []),
    ]:
        run = await driven(world, alice, first, ROME)
        assert (run["status"], run["steps"]) == ("completed", 2)
        assert run["answer"]["answer_payload"] == PAYLOAD
        assert await settled(alice, run) == [*outcome, ("final_result", "answered")]
        assert await data_of(alice, run, "text.delta") == []


async def test_after_that_the_run_fails_and_says_where(world: ApiWorld) -> None:
    alice = world.person()
    bad = 'call final_result {"city":"Rome","days":0}'
    run = await driven(world, alice, bad, bad, ROME)
    assert (run["status"], run["answer"], run["steps"]) == ("failed", None, 2)
    assert run["error"]["code"] == "output_invalid"
    assert "/days" in run["error"]["message"]


async def test_workers_people_and_tools_come_before_the_answer(world: ApiWorld) -> None:
    """A worker answers in plain text, whatever form its own runs have."""
    alice = world.person()
    drives, key = ApiDriver.of(world), await alice.key(KEY)
    await alice.agent("guide", instructions="#script\nsay Rome", output_schema=SCHEMA)
    asked = {
        "header": "Days",
        "question": "How many days?",
        "options": [{"label": "three"}, {"label": "four"}],
    }
    run = await driven(
        world,
        alice,
        'call __delegate_to {"target_agent_id":"guide","task":"where to?"}',
        f"call ask_question {json.dumps({'questions': [asked]})}\n{WRITE}",
        ROME,
        tools=["files_write", "ask_question"],
        approval={"files_write": "ask"},
        delegates=[{"agent": "guide"}],
    )
    assert run["status"] == "paused"
    (question,), (approval,) = run["pause"]["questions"], run["pause"]["approvals"]
    answers = {"answers": [{"index": 0, "option": 0}]}
    assert (await alice.post(f"/v1/questions/{question['id']}/answer", answers)).status_code == 200
    await decide(alice, key, approval["id"], "approve")
    run = await drives.until_idle(alice, run)
    assert (run["status"], run["steps"]) == ("completed", 3)
    assert (run["answer"]["answer_payload"], run["answer"]["tool_calls_seen"]) == (PAYLOAD, 1)
    done = await data_of(alice, run, "tool.completed")
    assert [(one["tool"], one["result"]) for one in done] == [
        ("__delegate_to", "Rome"),
        ("files_write", '{"path":"a","size_bytes":1}'),
    ]
