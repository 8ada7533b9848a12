"""Runs of agents with an output schema, on the real store (run-context.md 3.8, 9.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from app.log.records import AgentRecord
from app.service.agents.spec import AgentSpec, digest_of
from tests.service.deaths import doomed, killed, other
from tests.support.played.recorded_script import is_paired

if TYPE_CHECKING:
    from app.log.records import RunRecord
    from tests.support.log.killed import Moment
    from tests.support.service.house import House

pytestmark = pytest.mark.postgres

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}


async def driven(house: House, program: str, **request: Any) -> RunRecord:
    alice = await house.person()
    await house.agent(output_schema=SCHEMA)
    return await house.drive(await alice.run(program, **request))


async def test_a_call_of_the_output_tool_answers_the_run(house: House) -> None:
    run = await driven(house, 'call read {}\n---\ncall mutate {}\ncall final_result {"total":3}')
    assert run.status == "completed"
    assert run.answer == {
        "answer": '{"total":3}',
        "finish_reason": "goal",
        "tool_calls_seen": 1,
        "answer_payload": {"total": 3},
    }
    assert [house.tools.count(name) for name in ("read", "mutate")] == [1, 0]
    assert await house.asked(run) == []
    started = [data["tool"] for data in await house.data(run, "tool.started")]
    assert started == ["read"]
    settled = await house.data(run, "tool.settled")
    assert [(data["tool"], data["outcome"]) for data in settled] == [
        ("mutate", "cancelled"),
        ("final_result", "answered"),
    ]


async def test_c50_an_answer_given_as_text_keeps_its_bytes(house: House) -> None:
    text = '{ "total" :  3 }'
    run = await driven(house, f"say {text}")
    (event,) = [one for one in await house.events(run) if one.type == "run.completed"]
    assert b'"answer_payload":' + text.encode() in event.body
    assert b'"answer":' + orjson.dumps(text) in event.body
    assert run.answer is not None
    assert run.answer["answer"] == text
    assert "text.delta" not in await house.types(run)


async def test_c156_an_answer_that_does_not_hold_fails_the_run(house: House) -> None:
    run = await driven(house, 'call final_result {"total":"secret"}\n---\nsay {"total":"secret"}')
    assert run.status == "failed"
    assert run.error == {
        "code": "output_invalid",
        "message": "the answer does not match the output schema at /total",
    }
    assert run.steps == 2
    (refused,) = await house.data(run, "tool.settled")
    assert (refused["outcome"], refused["call_id"]) == ("invalid_arguments", "call_1_1_0")


async def test_malformed_arguments_twice_fail_the_run(house: House) -> None:
    run = await driven(house, "call final_result 1\n---\ncall final_result 2")
    assert run.error is not None
    assert run.error["code"] == "output_invalid"
    assert run.error["message"].endswith("not a JSON object: expected a JSON object, found number")


async def test_a_capped_run_answers_by_text_or_fails(house: House) -> None:
    capped = 'call read {}\n---\nsay {"total":3}'
    assert (await driven(house, capped, max_steps=1)).status == "completed"
    failed = await driven(house, "call read {}\n---\nsay three", max_steps=1)
    assert failed.error is not None
    assert failed.error["code"] == "output_invalid"


async def test_a_pause_and_another_worker_change_nothing(house: House) -> None:
    alice = await house.person()
    await house.agent(output_schema=SCHEMA, approval={"mutate": "ask"})
    program = 'say three\n---\ncall mutate {}\n---\ncall final_result {"total":3}'
    run = await house.drive(await alice.run(program))
    assert run.status == "paused"
    await alice.approve((await house.pending(run))[0])
    run = await other(house).drive(run)
    assert run.answer is not None
    assert (run.answer["answer_payload"], run.answer["tool_calls_seen"]) == ({"total": 3}, 1)
    assert (run.steps, house.tools.count()) == (3, 1)


async def test_an_unattended_run_answers_all_the_same(house: House) -> None:
    scopes = {"runs:read", "runs:write", "triggers:write"}
    alice = await house.person(scopes=frozenset(scopes))
    await house.agent(output_schema=SCHEMA)
    run = await alice.run('call final_result {"total":3}', unattended=True)
    assert (await house.drive(run)).status == "completed"


DEATHS: list[tuple[str, Moment, int]] = [
    (event, moment, nth)
    for event, nth in [
        ("step.started", 1),
        ("message.assistant", 1),
        ("step.started", 2),
        ("message.assistant", 2),
        ("run.completed", 1),
    ]
    for moment in ("before", "after")
]


@pytest.mark.fault
@pytest.mark.parametrize(("event", "moment", "nth"), DEATHS)
async def test_a_worker_that_dies_anywhere_leaves_the_same_answer(
    house: House, event: str, moment: Moment, nth: int
) -> None:
    alice = await house.person()
    await house.agent(output_schema=SCHEMA)
    run = await alice.run('call final_result {"sum":3}\n---\ncall final_result {"total":3}')
    await killed(doomed(house, event, moment, nth), run)
    run = await house.drive(run)
    assert run.answer is not None
    assert (run.answer["answer_payload"], run.steps) == ({"total": 3}, 2)
    outcomes = [data["outcome"] for data in await house.data(run, "tool.settled")]
    assert outcomes == ["invalid_arguments", "answered"]


async def test_later_runs_read_the_answer_as_text(house: House) -> None:
    first = await driven(
        house, 'say look\ncall final_result {"sum":3}\n---\nsay so\ncall final_result {"total":3}'
    )
    alice = await house.person()
    await house.agent("plain")
    later = await alice.run("say hi", agent="plain", conversation_id=first.conversation_id)
    later = await house.drive(later)
    assert (later.status, later.tainted) == ("completed", False)
    messages = house.script.requests[-1].messages
    assert is_paired(messages)
    assert messages[3].model_dump(mode="json")["content"] == [
        {"type": "text", "text": "so", "additional_params": None},
        {"type": "text", "text": '{"total":3}', "additional_params": None},
    ]


async def test_c157_a_schema_that_does_not_compile_fails_the_run_unasked(house: House) -> None:
    alice = await house.person()
    document = AgentSpec(model="script").document() | {"output_schema": {"$ref": "#/$defs/gone"}}
    digest, now = digest_of(AgentSpec(model="script")), house.clock.now()
    async with house.store.database.transaction(house.tenant) as tx:
        await tx.put_agent(AgentRecord(house.tenant, "broken", document, digest, now, now))
    run = await house.drive(await alice.run("say hi", agent="broken"))
    assert run.error is not None
    assert run.error["code"] == "output_invalid"
    assert house.script.requests == []
    assert (await house.types(run))[-2:] == ["run.started", "run.failed"]
