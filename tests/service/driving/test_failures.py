"""Runs that fail at each stage: the status comes from the terminal event alone (F48)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from app.service.driving import driver
from tests.support.played.recorded_script import is_paired

if TYPE_CHECKING:
    from app.log.envelope import NewEvent
    from tests.support.service.house import House

pytestmark = pytest.mark.postgres


@dataclass(frozen=True)
class FailureCase:
    name: str
    program: str
    code: str
    agent: dict[str, Any]


BAD = 'rawcall mutate c {"n":1,"n":2}'
FAILURES = [
    FailureCase("before_the_first_chunk", "fail auth", "auth", {}),
    FailureCase("refused", "fail bad_request", "bad_request", {}),
    FailureCase("in_mid_stream", "failafter 2 timeout\nsay one two three", "timeout", {}),
    FailureCase("malformed_three_times", "\n---\n".join([BAD] * 4), "malformed_arguments", {}),
    FailureCase(
        "tokens",
        "usage 80 30\ncall read {}\n---\nsay done",
        "constraints_conflict",
        {"limits": {"max_tokens": 100}},
    ),
]


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.name)
async def test_f48_a_failed_run_says_so_and_why(house: House, case: FailureCase) -> None:
    alice = await house.person()
    await house.agent(**case.agent)
    run = await house.drive(await alice.run(case.program))
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["code"] == case.code
    assert (await house.types(run))[-1] == "run.failed"
    assert run.answer is None


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.name)
async def test_the_conversation_of_a_failed_run_stays_usable(
    house: House, case: FailureCase
) -> None:
    alice = await house.person()
    await house.agent(**case.agent)
    run = await house.drive(await alice.run(case.program))
    later = await alice.run("say more", conversation_id=run.conversation_id)
    assert (await house.drive(later)).status == "completed"
    assert is_paired(house.script.requests[-1].messages)


async def test_spent_tokens_never_throw_an_answer_away(house: House) -> None:
    alice = await house.person()
    await house.agent(limits={"max_tokens": 100})
    run = await house.drive(await alice.run("usage 80 30\nsay done"))
    assert run.status == "completed"
    assert run.usage.total_tokens == 110


async def test_tokens_are_counted_over_all_turns_of_a_run(house: House) -> None:
    alice = await house.person()
    await house.agent(limits={"max_tokens": 100})
    step = "usage 30 30\ncall mutate {}"
    run = await house.drive(await alice.run(f"{step}\n---\n{step}\n---\nsay done"))
    await alice.approve((await house.pending(run))[0])
    run = await house.drive(run)
    await alice.approve((await house.pending(run))[0])
    run = await house.drive(run)
    assert run.error is not None
    assert run.error["code"] == "constraints_conflict"
    assert house.tools.count() == 2


async def test_a_flaky_model_is_asked_again_and_nothing_is_said_twice(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await alice.run("flaky 2 unavailable\nsay here I am")
    async with asyncio.TaskGroup() as owner:
        drive = owner.create_task(house.drive(run))
        while not drive.done():
            await house.clock.let_pass(0.1)
    assert drive.result().status == "completed"
    assert [one["attempt"] for one in await house.data(run, "step.started")] == [1, 2, 3]
    texts = [one["text"] for one in await house.data(run, "text.delta")]
    assert "".join(texts) == "here I am"


async def test_a_spent_deadline_ends_the_run_and_settles_its_call(house: House) -> None:
    alice = await house.person()
    await house.agent(limits={"deadline_s": 5})
    house.tools.hold("charge")
    run = await alice.run("call charge {}\n---\nsay done")
    async with asyncio.TaskGroup() as owner:
        drive = owner.create_task(house.drive(run))
        await house.tools.began.wait()
        await house.clock.let_pass(4.9)
        assert not drive.done()
        await house.clock.let_pass(0.1)
    run = drive.result()
    assert run.error is not None
    assert run.error["code"] == "deadline_exceeded"
    assert [one["outcome"] for one in await house.data(run, "tool.settled")] == ["interrupted"]
    assert (await house.types(run))[-2:] == ["tool.settled", "run.failed"]


async def test_f133_a_person_who_thinks_spends_no_time_of_the_run(house: House) -> None:
    alice = await house.person()
    await house.agent(limits={"deadline_s": 60})
    run = await house.drive(await alice.run("call mutate {}\n---\nsay done"))
    (asked,) = await house.pending(run)
    await house.clock.let_pass(600)
    await alice.approve(asked)
    assert (await house.drive(run)).status == "completed"


async def test_a_tool_that_raises_is_an_error_result_and_the_run_goes_on(house: House) -> None:
    """C161."""
    alice = await house.person()
    await house.agent()
    house.tools.errors["charge"] = RuntimeError("secret of the tool")
    run = await house.drive(await alice.run("call charge {}\n---\nsay done"))
    assert run.status == "completed"
    (failed,) = await house.data(run, "tool.failed")
    assert failed["code"] == "tool_failed"
    assert "secret" not in str(await house.events(run))


async def test_a_fault_in_the_end_of_a_turn_loses_nothing_that_the_turn_came_to(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt finds the answer in the log, and the model is not asked again."""

    def broken(*_: object, **__: object) -> list[NewEvent]:
        raise RuntimeError("a fault of ours")

    alice = await house.person()
    await house.agent()
    run = await alice.run("say done")
    with monkeypatch.context() as patched:
        patched.setattr(driver, "closing", broken)
        await house.drive_once(run)
    assert (await house.types(run))[-2:] == ["message.assistant", "step.completed"]
    ended = "UPDATE conversations SET lease_until = now() WHERE id = $1"
    await house.store.everyone.pool.execute(ended, run.conversation_id)
    run = await house.drive(run)
    assert run.answer is not None
    assert run.answer["answer"] == "done"
    assert len(house.script.requests) == 1
