"""Workers that die: what another makes of what they left, and what never happens twice."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.service.deaths import doomed, killed, other
from tests.support.clock import settle
from tests.support.played.recorded_script import is_paired

if TYPE_CHECKING:
    from app.log.records import RunRecord
    from tests.support.log.killed import Moment
    from tests.support.service.house import House

pytestmark = [pytest.mark.postgres, pytest.mark.fault]

JOB = 'call mutate {"to":"a"}\n---\nsay sent'


@dataclass(frozen=True)
class DeathCase:
    event_type: str
    moment: Moment
    nth: int = 1

    @property
    def name(self) -> str:
        return f"{self.moment}-{self.event_type}-{self.nth}"


def deaths(*types: str, nth: int = 1) -> list[DeathCase]:
    return [DeathCase(kind, moment, nth) for kind in types for moment in ("before", "after")]


FREE_JOB = 'think hm\nsay let me see\ncall read {}\ncall stamp {"n":1}\n---\nsay all done'
FREE_DEATHS = [
    *deaths("run.started", "step.started", "message.assistant", "tool.started", "tool.completed"),
    *deaths("step.completed", "step.started", "message.assistant", "text.delta", nth=2),
    *deaths("run.completed"),
]


async def story(house: House, run: RunRecord) -> list[tuple[str, str]]:
    """What a log tells beyond how often it was tried: calls, results, the texts of replies."""
    told: list[tuple[str, str]] = []
    for event in await house.events(run):
        data = event.data
        match event.type:
            case "message.assistant":
                told += [(event.type, str(part)) for part in data["content"]]
            case "tool.completed" | "tool.failed" | "tool.settled":
                told.append((event.type, f"{data['call_id']} {data.get('result')}"))
            case "run.completed":
                told.append((event.type, f"{data['answer']} {data['steps']}"))
            case "run.paused" | "run.failed":
                told.append((event.type, ""))
            case _:
                pass
    return told


@pytest.mark.parametrize("death", FREE_DEATHS, ids=lambda death: death.name)
async def test_a_run_that_lost_its_worker_ends_as_if_nothing_had_happened(
    house: House, death: DeathCase
) -> None:
    alice = await house.person()
    await house.agent(approval={"stamp": "allow"})
    twin = await house.drive(await alice.run(FREE_JOB))
    run = await alice.run(FREE_JOB)
    await killed(doomed(house, death.event_type, death.moment, death.nth), run)
    run = await other(house).drive(run)
    assert run.status == "completed"
    assert await story(house, run) == await story(house, twin)
    assert run.usage == twin.usage
    assert all(is_paired(request.messages) for request in house.script.requests)


async def test_f18_a_decision_survives_the_worker_that_was_to_carry_it_out(house: House) -> None:
    """T54: the decision is durable, the call runs once, and the answer can be given again."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    (asked,) = await house.pending(run)
    jws = alice.sign(await alice.payload(asked.id, decision="approve"))
    await alice.post(asked.id, "approve", jws)
    await killed(doomed(house, "run.resumed", "before"), run)
    assert house.tools.count() == 0
    run = await other(house).drive(run)
    assert run.status == "completed"
    assert house.tools.count() == 1
    assert (await alice.post(asked.id, "approve", jws)).persisted is False


async def test_f5_what_was_approved_runs_whatever_the_model_would_say_by_now(
    house: House,
) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run('call mutate {"to":"a"}\n---\nsay done'))
    await alice.approve((await house.pending(run))[0])
    await killed(doomed(house, "tool.started", "before"), run)
    again = other(house)
    again.script.program = 'call mutate {"to":"b"}\n---\nsay done'
    assert (await again.drive(run)).status == "completed"
    assert house.tools.args() == ['{"to":"a"}']
    assert [request.replies for request in again.script.requests] == [1]


async def test_t136_a_started_call_with_an_effect_is_never_run_again_silently(
    house: House,
) -> None:
    """I15: the outcome is unknown, a person is asked, and the key stays the same."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    await alice.approve((await house.pending(run))[0])
    await killed(doomed(house, "tool.started", "after"), run)
    run = await other(house).drive(run)
    assert run.status == "paused"
    assert house.tools.count() == 0
    (anew,) = await house.pending(run)
    assert anew.card["risk"]["outcome_unknown"] is True
    assert "outcome is unknown" in anew.card["reason"]
    await alice.approve(anew)
    run = await house.drive(run)
    assert run.status == "completed"
    starts = await house.data(run, "tool.started")
    assert [(one["attempt"], one["idempotency_key"]) for one in starts] == [
        (1, f"{run.id}:call_1_1_0"),
        (2, f"{run.id}:call_1_1_0"),
    ]
    assert run.answer is not None
    assert run.answer["tool_calls_seen"] == 1


async def test_t136_a_denied_re_run_never_claims_that_the_call_did_not_run(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    await alice.approve((await house.pending(run))[0])
    await killed(doomed(house, "tool.started", "after"), run)
    run = await other(house).drive(run)
    await alice.deny((await house.pending(run))[0])
    run = await house.drive(run)
    assert run.status == "completed"
    assert [one["outcome"] for one in await house.data(run, "tool.settled")] == ["outcome_unknown"]
    assert house.tools.count() == 0


async def test_t135_an_idempotent_call_is_run_again_with_its_key(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run("call stamp {}\n---\nsay done"))
    await alice.approve((await house.pending(run))[0])
    await killed(doomed(house, "tool.completed", "before"), run)
    assert house.tools.count("stamp") == 1
    run = await other(house).drive(run)
    assert run.status == "completed"
    keys = [call.idempotency_key for call in house.tools.calls]
    assert keys == [f"{run.id}:call_1_1_0"] * 2


async def test_t137_unattended_an_unknown_outcome_is_told_and_not_repeated(house: House) -> None:
    await house.agent()
    alice = await house.person(scopes={"runs:write", "triggers:write"})
    run = await alice.run("call charge {}\n---\nsay done", unattended=True)
    await killed(doomed(house, "tool.started", "after"), run)
    run = await other(house).drive(run)
    assert run.status == "completed"
    assert house.tools.count("charge") == 0
    assert [one["outcome"] for one in await house.data(run, "tool.settled")] == ["outcome_unknown"]


async def test_a_cut_attempt_is_taken_back_before_it_is_made_again(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await alice.run("tokens 600 word\n---\nsay done")
    await killed(doomed(house, "text.delta", "after"), run)
    run = await other(house).drive(run)
    types = await house.types(run)
    cut = types.index("step.discarded")
    assert "text.delta" in types[:cut]
    (discarded,) = await house.data(run, "step.discarded")
    assert discarded == {"attempt": 1, "reason": "interrupted"}
    kept = [e.data["text"] for e in (await house.events(run))[cut:] if e.type == "text.delta"]
    assert run.answer is not None
    assert "".join(kept).strip() == run.answer["answer"].strip()


async def test_t9_a_recovered_turn_shows_the_model_the_time_at_which_it_began(
    house: House,
) -> None:
    """Also when the process that took it over died in its turn."""
    alice = await house.person()
    await house.agent()
    run = await alice.run("say hi")
    for _ in range(2):
        await killed(doomed(house, "message.assistant", "before"), run)
        await house.clock.let_pass(30)
    again = other(house)
    await again.drive(run)
    noon_ms = 1_795_953_600_000
    assert [one.now_unix_ms for one in again.script.requests] == [noon_ms]


async def test_f39_pending_approvals_are_listed_and_decided_after_a_restart(house: House) -> None:
    """F34: the list is folded from the log; there is no second registry."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    again = other(house)
    alice.house = again
    (asked,) = await again.pending(run)
    assert (await alice.approve(asked)).persisted is True
    assert (await again.drive(run)).status == "completed"


async def test_f30_a_decision_that_is_there_when_the_run_parks_is_not_waited_for(
    house: House,
) -> None:
    """An approval can be seen only once its run is parked, so an answer always finds it so."""
    alice = await house.person()
    await house.agent()
    run = await alice.run(JOB)
    lease = await house.driver.claim(run.conversation_id)
    assert lease is not None
    async with asyncio.TaskGroup() as owner:
        owner.create_task(house.driver.drive(lease))
        while not (asked := await house.pending(run)):
            await settle()
        assert (await alice.approve(asked[0])).persisted is True
    assert (await house.drive(run)).status == "completed"


async def test_a_turn_that_another_process_goes_on_with_has_no_more_steps(house: House) -> None:
    """The twin ends at its cap after one step; so does a run whose worker died in that step."""
    await house.agent(approval={"stamp": "allow"}, max_steps=1)
    run = await (await house.person()).run(
        "say hm\ncall read {}\ncall stamp {}\n---\ncall charge {}"
    )
    await killed(doomed(house, "tool.completed", "after"), run)
    ended = await other(house).drive(run)
    (completed,) = await house.data(run, "run.completed")
    assert (ended.status, ended.answer and ended.answer["answer"]) == ("completed", "hm")
    assert (completed["ended_by"], completed["steps"]) == ("step_cap", 1)
    assert house.tools.count("charge") == 0
