"""Questions to people: what may be asked, what pauses, what an answer becomes (turn.md 7.2)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from app.log.calls import CallGated, ToolSettled, ToolStarted
from app.policy.taint import Trust
from app.turn.agent import BoundAgent
from app.turn.result import EndedBy, PendingQuestion, TurnResult
from tests.support.turn.asking import ASKER, asking, question, settled_in
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import POST, READ, WRITE, MemoryTool
from tests.support.turn.world import World, answer, approve

if TYPE_CHECKING:
    from app.turn.options import VerifiedAnswer


def outcomes(world: World) -> list[str]:
    return [one.outcome for one in world.journal.of(ToolSettled)]


async def test_the_tool_is_offered_behind_the_executors_and_never_executed() -> None:
    world = World([reply(said("ok"))], MemoryTool("read", READ), agent=ASKER)
    await world.turn()
    read, ask = world.prepared.requests[0].tools
    assert (read.name, ask.name) == ("read", "ask_question")
    questions = ask.parameters["properties"]["questions"]
    assert (questions["minItems"], questions["maxItems"]) == (1, 3)
    options = questions["items"]["properties"]["options"]
    assert (options["minItems"], options["maxItems"]) == (2, 4)


@pytest.mark.parametrize(
    ("agent", "options"),
    [
        (BoundAgent(name="tester", model="prepared"), {}),
        (ASKER, {"unattended": True}),
        (ASKER, {"is_delegated_worker": True}),
    ],
    ids=["not its tool", "unattended", "worker"],
)
async def test_t125_it_is_not_offered_where_nobody_is_to_answer(
    agent: BoundAgent, options: dict[str, bool]
) -> None:
    world = World([reply(said("ok"))], agent=agent)
    await world.turn(**options)
    assert world.prepared.requests[0].tools == ()


@pytest.mark.parametrize("options", [{"unattended": True}, {"is_delegated_worker": True}])
async def test_t125_called_anyway_it_says_that_nobody_can_answer(options: dict[str, bool]) -> None:
    world = asking(question())
    ended = await world.turn(**options)
    outcome, result = settled_in(world)
    assert (ended.ended_by, outcome) == (EndedBy.ANSWER, "unknown_tool")
    assert "Nobody can answer" in result["error"]


async def test_malformed_arguments_come_before_the_question() -> None:
    """Row 2 of turn.md 3.4."""
    world = World([reply(called("c1", "ask_question", "[")), reply(said("ok"))], agent=ASKER)
    await world.turn()
    assert outcomes(world) == ["malformed_arguments"]


async def test_a_question_pauses_with_one_pending_item_per_question() -> None:
    world = asking(question(), question(header="How"))
    paused = await world.turn()
    assert (paused.ended_by, paused.pending_approvals) == (EndedBy.PAUSE, ())
    first, second = paused.pending_questions
    assert (first.call_id, first.index, first.occurrence_turn_id) == ("call_1_1_0", 0, None)
    assert (second.call_id, second.index, second.question.header) == ("call_1_1_0", 1, "How")
    assert json.loads(first.arguments_json)["questions"][0] == question()
    assert [one.recommended for one in first.question.options] == [True, False]
    assert not world.journal.of(ToolSettled)


async def test_answers_to_all_questions_are_the_result() -> None:
    world = asking(question(), question())
    paused = await world.turn()
    ended = await world.turn(question_answers=[answer(one) for one in paused.pending_questions])
    assert (ended.ended_by, ended.text) == (EndedBy.ANSWER, "done")
    outcome, result = settled_in(world)
    assert outcome == "answered"
    assert result["answers"][1] == {
        "index": 1,
        "question": "When is it to go out?",
        "outcome": "answered",
        "option": 0,
        "label": "today",
    }
    assert world.journal.of(ToolStarted) == []
    assert world.journal.of(CallGated) == []


async def test_t132_a_declined_answer_differs_from_every_option() -> None:
    world = asking(question())
    (pending,) = (await world.turn()).pending_questions
    await world.turn(question_answers=[answer(pending, outcome="declined")])
    _, result = settled_in(world)
    (told,) = result["answers"]
    assert told == {
        "index": 0,
        "question": "When is it to go out?",
        "outcome": "declined",
        "note": "They left it to you: use your judgement.",
    }


async def test_t132_an_auto_resolved_answer_was_given_by_nobody() -> None:
    world = asking(question())
    (pending,) = (await world.turn()).pending_questions
    resolved = replace(answer(pending, outcome="auto_resolved"), answered_by="")
    await world.turn(question_answers=[resolved])
    _, result = settled_in(world)
    assert result["answers"][0]["outcome"] == "auto_resolved"
    assert "option" not in result["answers"][0]


async def test_t133_one_of_two_questions_answered_keeps_only_the_other_pending() -> None:
    world = asking(question(), question())
    first, second = (await world.turn()).pending_questions
    still = await world.turn(question_answers=[answer(first)])
    assert still.ended_by is EndedBy.PAUSE
    (pending,) = still.pending_questions
    assert (pending.index, pending.occurrence_turn_id) == (1, "turn_1")
    ended = await world.turn(question_answers=[answer(first), answer(second)])
    assert ended.ended_by is EndedBy.ANSWER


@pytest.mark.parametrize(
    "moved", [{"turn_id": "turn_7"}, {"call_id": "call_9_9_9"}, {"args_sha256": "0" * 64}]
)
async def test_t133_an_answer_of_another_turn_call_or_content_resolves_nothing(
    moved: dict[str, Any],
) -> None:
    world = asking(question())
    (pending,) = (await world.turn()).pending_questions
    still = await world.turn(question_answers=[replace(answer(pending), **moved)])
    assert [one.index for one in still.pending_questions] == [0]
    assert outcomes(world) == []


async def test_two_answers_to_one_question_are_refused_at_construction() -> None:
    world = asking(question())
    (pending,) = (await world.turn()).pending_questions
    with pytest.raises(ValueError, match="one answer per question"):
        await world.turn(question_answers=[answer(pending), answer(pending)])


@pytest.mark.parametrize(
    ("said_so", "trust"),
    [
        ({}, Trust.TRUSTED_USER),
        ({"outcome": "declined"}, Trust.TRUSTED_USER),
        ({"free_text": "at noon"}, Trust.QUARANTINED_CONTENT),
        ({"free_text": "at noon", "is_principals_own": True}, Trust.TRUSTED_USER),
        ({"outcome": "auto_resolved"}, Trust.UNSPECIFIED),
    ],
    ids=["option", "declined", "another's words", "the principal's words", "nobody"],
)
async def test_the_result_has_the_tag_of_what_was_answered(
    said_so: dict[str, Any], trust: Trust
) -> None:
    """turn.md 5.5: an option is trusted, the words of anyone but the principal are not."""
    world = asking(question())
    (pending,) = (await world.turn()).pending_questions
    ended = await world.turn(question_answers=[answer(pending, **said_so)])
    (settled,) = [one for one in world.journal.facts if isinstance(one.payload, ToolSettled)]
    assert settled.trust is trust
    assert ended.tainted is trust.taints


async def test_free_text_is_told_as_it_was_said() -> None:
    world = asking(question())
    (pending,) = (await world.turn()).pending_questions
    await world.turn(question_answers=[answer(pending, free_text="at noon")])
    _, result = settled_in(world)
    assert result["answers"][0]["text"] == "at noon"


def mixed() -> World:
    """A batch with a question, a gated call, a read and a write, in this order."""
    batch = [
        called("c0", "ask_question", {"questions": [question()]}),
        called("c1", "post", {}, position=1),
        called("c2", "read", {}, position=2),
        called("c3", "write", {}, position=3),
    ]
    tools = (
        MemoryTool("post", POST, asks=True),
        MemoryTool("read", READ),
        MemoryTool("write", WRITE),
    )
    return World([reply(*batch), reply(said("done"))], *tools, agent=ASKER)


def pending_of(paused: TurnResult) -> PendingQuestion:
    (pending,) = paused.pending_questions
    return pending


async def test_a_batch_may_wait_for_a_question_and_an_approval_at_once() -> None:
    """turn.md 3.6: the read runs meanwhile, the write waits for both."""
    world = mixed()
    paused = await world.turn()
    assert [one.tool_name for one in paused.pending_approvals] == ["post"]
    assert pending_of(paused).call_id == "call_1_1_0"
    assert world.tools.ran == ["read"]
    ended = await world.turn(
        approval_decisions=[approve(paused.pending_approvals[0])],
        question_answers=[answer(pending_of(paused))],
    )
    assert ended.ended_by is EndedBy.ANSWER
    assert sorted(world.tools.ran) == ["post", "read", "write"]


async def test_a_question_alone_holds_back_what_has_an_effect() -> None:
    """I14: while a person is asked, nothing with an effect runs that no person has ordered."""
    batch = [
        called("c0", "ask_question", {"questions": [question()]}),
        called("c1", "write", {}, position=1),
    ]
    world = World([reply(*batch), reply(said("ok"))], MemoryTool("write", WRITE), agent=ASKER)
    paused = await world.turn()
    assert world.tools.ran == []
    await world.turn(question_answers=[answer(pending_of(paused))])
    assert world.tools.ran == ["write"]


async def test_f25_a_question_that_is_not_allowed_here_waits_for_nobody() -> None:
    """F25: with a malformed call beside them, two decisions on the gated calls are enough."""
    batch = [
        called("c0", "read", "["),
        called("c1", "ask_question", {"questions": []}, position=1),
        called("c2", "post", {"n": 1}, position=2),
        called("c3", "post", {"n": 2}, position=3),
    ]
    tools = MemoryTool("read", READ), MemoryTool("post", POST, asks=True)
    world = World([reply(*batch), reply(said("ok"))], *tools, agent=ASKER)
    paused = await world.turn()
    assert len(paused.pending_approvals) == 2
    ended = await world.turn(approval_decisions=[approve(one) for one in paused.pending_approvals])
    assert ended.ended_by is EndedBy.ANSWER


async def test_untrusted_content_beside_a_question_does_not_ask_it_twice() -> None:
    batch = [
        called("c0", "ask_question", {"questions": [question()]}),
        called("c1", "read", {}, position=1),
    ]
    tool = MemoryTool("read", READ, ingests=True)
    world = World([reply(*batch), reply(said("ok"))], tool, agent=ASKER)
    paused = await world.turn()
    assert (paused.tainted, len(paused.pending_questions)) == (True, 1)


async def test_an_answer_that_met_no_call_is_reported() -> None:
    """turn.md 4.5: found nowhere, something lost the call; answered earlier, it is harmless."""
    world = asking(question())
    (pending,) = (await world.turn()).pending_questions
    lost = replace(answer(pending), call_id="call_9_9_9", args_sha256="0" * 64)
    with capture_logs() as logs:
        await world.turn(question_answers=[answer(pending), lost])
    (warned,) = [one for one in logs if one["event"] == "answer.unmatched"]
    assert (warned["call_id"], warned["why"]) == ("call_9_9_9", "found_nowhere")
    with capture_logs() as logs:
        await asked_again(world, answer(pending))
    (warned,) = [one for one in logs if one["event"] == "answer.unmatched"]
    assert warned["why"] == "answered_earlier"


async def asked_again(world: World, given: VerifiedAnswer) -> None:
    """One turn more of a run that has ended, with an answer that was used before."""
    await world.turn(question_answers=[given])


async def test_the_same_questions_in_a_later_turn_need_answers_of_their_own() -> None:
    """T133: ids of providers repeat, occurrences do not."""
    again = called("c1", "ask_question", {"questions": [question()]})
    world = World([reply(again), reply(again), reply(said("ok"))], agent=ASKER)
    (first,) = (await world.turn()).pending_questions
    second = await world.turn(question_answers=[answer(first)])
    assert second.ended_by is EndedBy.PAUSE
    assert pending_of(second).call_id == "call_2_2_0"
    third = await world.turn(question_answers=[answer(first)])
    assert third.ended_by is EndedBy.PAUSE
