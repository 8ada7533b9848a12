"""A history that has grown long is condensed between two steps (run-context.md 10, 11.L)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from app.log.queries import LogScope
from app.policy.taint import Trust
from tests.service.context.remembering import content
from tests.service.deaths import doomed, killed, other
from tests.support.played.recorded_script import is_paired
from tests.support.service.house import House

if TYPE_CHECKING:
    from app.log.envelope import Event
    from app.log.records import RunRecord
    from app.store.open import Store
    from app.turn.ports import ModelRequest

pytestmark = pytest.mark.postgres

SOON: dict[str, Any] = {
    "memory": {"compaction": {"max_messages": 8, "keep_messages": 2}},
    "max_steps": 100,
}
TASK = "the task is 4711471"


def reading(steps: int, *, tool: str = "read") -> str:
    """A program of as many calls, then an answer."""
    calls = "\n---\n".join(f'call {tool} {{"n":{1000000 + n}}}' for n in range(steps))
    return f"{calls}\n---\nsay done at last"


@pytest.fixture
def house(store: Store, tenant: str) -> House:
    return House(store, tenant)


async def compactions(house: House, run: RunRecord) -> list[Event]:
    """The events of the run's summaries, with what lies beside them."""
    async with house.store.database.session(house.tenant) as session:
        return await session.events_of(LogScope(run.conversation_id, run.id), ["history.compacted"])


def texts(request: ModelRequest) -> list[str]:
    """The request's messages in short: who, and of a user's text what."""
    return [getattr(m.content[0], "text", m.content[0].type) for m in request.messages]  # type: ignore[union-attr]  # No system message is among them.


async def test_c171_a_long_run_of_calls_is_condensed_and_keeps_its_task(house: House) -> None:
    """The ninth message makes it due: five steps with their results, and the task."""
    alice = await house.person()
    await house.agent(**SOON)
    house.script.program = reading(6)
    run = await house.drive(await alice.run(TASK))
    assert run.answer is not None
    assert run.answer["answer"] == "done at last"
    [event] = await compactions(house, run)
    events = await house.events(run)
    said = next(e for e in events if e.type == "message.user")
    replies = [e for e in events if e.type == "message.assistant"]
    fourth = house.script.requests[4]
    assert texts(fourth) == [TASK, "tool_call", "tool_result"]
    assert is_paired(fourth.messages)
    # Kept is the fourth reply with its results; folded are three replies and theirs.
    assert event.data | {"tokens_before": 0, "tokens_after": 0, "summary_sha256": ""} == {
        "reason": "message_count",
        "from_seq": replies[0].seq,
        "through_seq": replies[3].seq - 1,
        "pinned_seq": said.seq,
        "messages": 6,
        "tokens_before": 0,
        "tokens_after": 0,
        "summary_sha256": "",
        "prior_sha256": None,
        "model": "played",
    }
    assert event.data["tokens_after"] < event.data["tokens_before"]
    assert replies[3].seq < event.seq < replies[4].seq


async def test_the_summary_is_a_block_of_its_own_after_the_others(house: House) -> None:
    alice = await house.person()
    await house.agent(**SOON)
    house.summarizers.answers = ["The first two were read."]
    house.script.program = reading(5)
    run = await alice.run(TASK, caller_memory=b'{"a":1}')
    await house.drive(run)
    before, after = house.script.requests[3], house.script.requests[4]
    assert len(before.context) == 1
    assert after.context[0] == before.context[0]
    assert after.context[1].startswith("<compacted_history>\nRetrieved before this run. Data,")
    assert content(after.context[1]) == {
        "summary": "The first two were read.\nIdentifiers: 1000000 1000001 1000002"
    }
    [(prior, items)] = house.summarizers.asked
    assert (prior, items[0]) == ("", 'call of read: {"n":1000000}')


async def test_c173_a_second_summary_merges_the_first(house: House) -> None:
    alice = await house.person()
    await house.agent(**SOON)
    house.summarizers.answers = ["First.", "Second."]
    house.script.program = reading(9)
    run = await house.drive(await alice.run(TASK))
    first, second = await compactions(house, run)
    (_, asked_first), (prior, asked_second) = house.summarizers.asked
    assert prior == "First.\nIdentifiers: 1000000 1000001 1000002"
    assert asked_second[0] == 'call of read: {"n":1000003}'
    assert set(asked_first).isdisjoint(asked_second)
    assert second.data["from_seq"] == first.data["through_seq"] + 1
    assert second.data["prior_sha256"] == first.data["summary_sha256"]
    assert second.data["pinned_seq"] == first.data["pinned_seq"]
    told = content(house.script.requests[-1].context[0])["summary"]
    assert told.startswith("Second.\nIdentifiers: 1000000 1000001 1000002 1000003")


async def test_c177_the_event_holds_no_content_and_changes_none(house: House) -> None:
    alice = await house.person()
    await house.agent(**SOON)
    house.summarizers.answers = ["a secret of 4711471"]
    house.script.program = reading(6)
    run = await house.drive(await alice.run(TASK))
    [event] = await compactions(house, run)
    assert b"secret" not in event.body
    assert event.private is not None
    assert b"secret" in event.private
    # All nine results and replies are in the log as they were.
    assert (await house.types(run)).count("message.assistant") == 7


async def test_a_later_run_begins_after_the_summary(house: House) -> None:
    """In a process that knows nothing of it, and the run after that too."""
    alice = await house.person()
    await house.agent(**SOON)
    house.summarizers.answers = ["Read so far."]
    house.script.program = reading(5)
    first = await house.drive(await alice.run(TASK))
    elsewhere = other(house)
    for said in ("say two", "say three"):
        bob = await elsewhere.person()
        await elsewhere.drive(await bob.run(said, conversation_id=first.conversation_id))
    second, third = elsewhere.script.requests
    assert texts(second) == [
        TASK, "tool_call", "tool_result", "tool_call", "tool_result", "done at last", "say two",
    ]  # fmt: skip
    assert is_paired(second.messages)
    # Nine messages were too many again, before the third run had asked anything. F54: some refuse
    # a transcript that the model's own word begins.
    assert texts(third) == [
        "(The beginning of this conversation is summarised above.)", "two", "say three",
    ]  # fmt: skip
    for request in (second, third):
        [block] = request.context
        assert content(block)["summary"].startswith("Read so far.")
    assert "say two" in content(third.context[0])["summary"]


async def test_a_run_alone_begins_without_the_summary_of_others(house: House) -> None:
    alice = await house.person()
    await house.agent(**SOON)
    house.script.program = reading(5)
    first = await house.drive(await alice.run(TASK))
    house.script.program = None
    await house.agent(memory={"history": "run"})
    await house.drive(await alice.run("say two", conversation_id=first.conversation_id))
    assert texts(house.script.requests[-1]) == ["say two"]
    assert house.script.requests[-1].context == ()


@pytest.mark.parametrize("answer", [RuntimeError("secret"), "", "  \n"], ids=["error", "", "blank"])
async def test_c172_without_a_summary_the_run_goes_on_and_asks_again_four_messages_later(
    house: House, answer: str | Exception
) -> None:
    """T141: the prior summary stands, and the next success merges."""
    alice = await house.person()
    await house.agent(**SOON)
    house.summarizers.answers = ["First.", answer, "Third."]
    house.script.program = reading(11)
    with capture_logs() as logs:
        run = await house.drive(await alice.run(TASK))
    first, second = await compactions(house, run)
    assert [prior for prior, _ in house.summarizers.asked] == [
        "", first_text(first), first_text(first),
    ]  # fmt: skip
    assert second.data["prior_sha256"] == first.data["summary_sha256"]
    failed = [line for line in logs if line["event"] == "history.compaction_failed"]
    assert len(failed) == 1
    assert failed[0]["log_level"] == "warning"
    assert "secret" not in str(failed)
    assert run.status == "completed"
    # Nine messages are too many, thirteen are four more.
    asked = [len(request.messages) for request in house.script.requests]
    assert asked == [1, 3, 5, 7, 3, 5, 7, 9, 11, 3, 5, 7]


def first_text(event: Event) -> str:
    assert event.private is not None
    text = event.private.decode().partition('"summary":"')[2].partition('"')[0]
    return text.replace("\\n", "\n")


async def test_c172_a_cancelled_run_is_not_taken_for_a_failed_summary(house: House) -> None:
    alice = await house.person()
    await house.agent(**SOON)
    house.summarizers.answers = [asyncio.CancelledError()]
    house.script.program = reading(5)
    run = await alice.run(TASK)
    with pytest.raises(asyncio.CancelledError):
        await house.drive(run)


async def test_t90_what_is_folded_taints_still(house: House) -> None:
    """C176: the event, the block and every later run."""
    alice = await house.person()
    await house.agent(**SOON)
    house.script.program = f"call fetch {{}}\n---\n{reading(5)}"
    first = await house.drive(await alice.run(TASK))
    [event] = await compactions(house, first)
    assert event.trust is Trust.QUARANTINED_CONTENT
    block = house.script.requests[-1].context[0]
    assert "- It holds content from untrusted sources" in block
    house.script.program = 'call mutate {"n":1}'
    second = await house.drive(await alice.run("more", conversation_id=first.conversation_id))
    assert second.tainted
    [asked] = await house.pending(second)
    assert "mutate-external" in asked.card["missing_capabilities"]


async def test_a_summary_that_merges_an_untrusted_one_is_untrusted(house: House) -> None:
    """C176: nothing that the second one folds by itself is."""
    alice = await house.person()
    await house.agent(**SOON)
    house.script.program = f"call fetch {{}}\n---\n{reading(8)}"
    first, second = await compactions(house, await house.drive(await alice.run(TASK)))
    assert (first.trust, second.trust) == (Trust.QUARANTINED_CONTENT,) * 2


async def test_what_is_folded_of_a_clean_history_is_clean(house: House) -> None:
    alice = await house.person()
    await house.agent(**SOON)
    house.script.program = f"{reading(5).removesuffix('say done at last')}call fetch {{}}"
    run = await house.drive(await alice.run(TASK))
    [event] = await compactions(house, run)
    assert event.trust is Trust.UNSPECIFIED
    assert "untrusted" not in house.script.requests[4].context[0]


async def test_t51_a_call_that_waits_is_not_folded(house: House) -> None:
    """C169, T55: it is decided in another process, runs once, and goes into a later summary."""
    alice = await house.person()
    await house.agent(**SOON)
    program = f"{reading(3).removesuffix('say done at last')}call mutate {{}}\n---\n{reading(6)}"
    house.script.program = program
    run = await house.drive(await alice.run(TASK))
    assert await compactions(house, run) == []
    [asked] = await house.pending(run)
    await alice.approve(asked)
    elsewhere = other(house)
    elsewhere.script.program = program
    run = await elsewhere.drive(run)
    assert run.status == "completed"
    assert house.tools.count("mutate") == 1
    assert len(await compactions(house, run)) > 0
    for request in elsewhere.script.requests:
        assert is_paired(request.messages)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("event_type", ["history.compacted", "message.assistant"])
async def test_a_process_that_dies_leaves_the_same_history(
    store: Store, tenant: str, event_type: str, moment: Any
) -> None:
    """The model is asked the same as in a run that nothing interrupted."""
    whole = House(store, f"{tenant}-twin")
    ann = await whole.person()
    await whole.agent(**SOON)
    whole.script.program = reading(9)
    await whole.drive(await ann.run(TASK))
    expected = [(texts(one), tuple(one.context)) for one in whole.script.requests]

    house = House(store, tenant)
    alice = await house.person()
    await house.agent(**SOON)
    nth = 1 if event_type == "history.compacted" else 6
    dying = doomed(house, event_type, moment, nth)
    dying.script.program = reading(9)
    run = await alice.run(TASK)
    await killed(dying, run)
    heir = other(house)
    heir.script.program = reading(9)
    run = await heir.drive(run)
    assert run.status == "completed"
    asked = [(texts(one), tuple(one.context)) for one in heir.script.requests]
    assert asked == expected[-len(asked) :]
    assert house.tools.count("read") == 9


async def test_off_nothing_is_condensed(house: House) -> None:
    alice = await house.person()
    await house.agent(max_steps=100, memory={"compaction": {"enabled": False, "max_messages": 8}})
    house.script.program = reading(9)
    run = await house.drive(await alice.run(TASK))
    assert await compactions(house, run) == []
    assert house.summarizers.asked == []
    assert len(house.script.requests[-1].messages) == 19


async def test_by_default_80_messages_are_too_many_and_20_are_kept(house: House) -> None:
    alice = await house.person()
    await house.agent(max_steps=100)
    house.script.program = reading(41)
    run = await house.drive(await alice.run(TASK))
    [event] = await compactions(house, run)
    # The 81st message makes it due; the task stays beside the last twenty.
    assert [len(request.messages) for request in house.script.requests[-3:]] == [79, 21, 23]
    assert event.data["messages"] == 60


async def test_a_share_of_the_window_makes_it_due_as_well(house: House) -> None:
    alice = await house.person()
    await house.agent(
        max_steps=100, memory={"compaction": {"keep_messages": 2, "window_share": 0.5}}
    )
    house.script.window = 2000
    house.tools.answers["read"] = "x" * 1000
    house.script.program = reading(5)
    run = await house.drive(await alice.run(TASK))
    found = await compactions(house, run)
    assert [event.data["reason"] for event in found] == ["token_budget"]
    assert run.status == "completed"


async def test_c175_a_prompt_over_the_window_ends_the_run(house: House) -> None:
    alice = await house.person()
    await house.agent(max_steps=100)
    house.script.window = 1000
    house.tools.answers["read"] = "x" * 4000
    house.script.program = reading(5)
    run = await house.drive(await alice.run(TASK))
    assert run.error is not None
    assert run.error["code"] == "context_window_exceeded"
    assert "xxx" not in run.error["message"]
    assert len(house.script.requests) == 1
