"""Batches that pause, and what runs meanwhile (turn.md 3.6, T46 to T56)."""

from __future__ import annotations

from app.engine.agent_run import AgentRun
from app.engine.messages import ToolResult, UserMessage
from app.log.calls import CallGated, ToolCompleted, ToolSettled, ToolStarted
from app.turn.result import EndedBy
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import CONNECTOR, EGRESS, POST, READ, WRITE, MemoryTool
from tests.support.turn.world import World, approve, deny


def world_of(*names: str, tools: list[MemoryTool]) -> World:
    batch = [called(f"c{i}", name, {}, position=i) for i, name in enumerate(names)]
    return World([reply(*batch), reply(said("ok"))], *tools)


async def test_t46_a_read_only_sibling_runs_once_before_the_pause() -> None:
    world = world_of(
        "post", "read", tools=[MemoryTool("post", POST, asks=True), MemoryTool("read", READ)]
    )
    first = await world.turn()
    assert (first.ended_by, world.tools.ran) == (EndedBy.PAUSE, ["read"])
    results = first.messages[-1]
    assert isinstance(results, UserMessage)
    assert [part.name for part in results.content if isinstance(part, ToolResult)] == ["read"]
    await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    assert world.tools.ran == ["read", "post"]


async def test_a_read_of_a_registered_connector_counts_as_read_only() -> None:
    world = world_of(
        "post", "crm", tools=[MemoryTool("post", POST, asks=True), MemoryTool("crm", CONNECTOR)]
    )
    await world.turn()
    assert world.tools.ran == ["crm"]


async def test_t47_a_free_sibling_with_an_effect_waits_and_then_runs_exactly_once() -> None:
    world = world_of(
        "write", "post", tools=[MemoryTool("post", POST, asks=True), MemoryTool("write", WRITE)]
    )
    first = await world.turn()
    assert world.tools.ran == []
    assert [gate.tool for gate in world.journal.of(CallGated)] == ["post"]
    second = await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    assert (second.text, world.tools.ran) == ("ok", ["write", "post"])
    assert [started.attempt for started in world.journal.of(ToolStarted)] == [1, 1]


async def test_a_waiting_sibling_goes_on_waiting_while_any_of_its_batch_pends() -> None:
    world = World(
        [
            reply(
                called("c1", "post", {}),
                called("c2", "write", {}, position=1),
                called("c3", "post", {"x": 1}, position=2),
            ),
            reply(said("ok")),
        ],
        MemoryTool("post", POST, asks=True),
        MemoryTool("write", WRITE),
    )
    first = await world.turn()
    second = await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    assert world.tools.ran == ["post"]
    third = await world.turn(approval_decisions=[deny(second.pending_approvals[0])])
    assert (third.text, world.tools.ran) == ("ok", ["post", "write"])


async def test_t49_untrusted_content_from_a_sibling_shows_on_the_cards_of_the_same_pause() -> None:
    world = world_of(
        "post",
        "inbox",
        "fetch",
        tools=[
            MemoryTool("post", POST, asks=True),
            MemoryTool("inbox", READ, ingests=True),
            MemoryTool("fetch", EGRESS),
        ],
    )
    first = await world.turn()
    assert world.tools.ran == ["inbox"]
    post, fetch = first.pending_approvals
    assert (post.tool_name, post.missing) == ("post", POST)
    assert (fetch.tool_name, fetch.missing) == ("fetch", EGRESS)
    assert fetch.reason.startswith("fetch needs a person's consent")
    assert [(gate.tool, gate.outcome, gate.rule) for gate in world.journal.of(CallGated)] == [
        ("inbox", "allow", "none"),
        ("post", "escalate", "capabilities"),
        ("fetch", "escalate", "capabilities"),
    ]


async def test_untrusted_content_does_not_reopen_a_request_that_stands() -> None:
    world = World(
        [
            reply(called("c1", "post", {}), called("c2", "post", {"x": 1}, position=1)),
            reply(said("ok")),
        ],
        MemoryTool("post", POST, asks=True, ingests=True),
    )
    first = await world.turn()
    second = await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    assert second.tainted
    assert [one.call_id for one in second.pending_approvals] == ["call_1_1_1"]
    assert len(world.journal.of(CallGated)) == 2


async def test_t50_a_resumed_batch_of_five_gives_five_results_in_source_order() -> None:
    world = world_of(
        "post",
        "read",
        "write",
        "nope",
        "deny",
        tools=[
            MemoryTool("post", POST, asks=True),
            MemoryTool("read", READ),
            MemoryTool("write", WRITE),
            MemoryTool("deny", POST, asks=True),
        ],
    )
    first = await world.turn()
    post, refused = first.pending_approvals
    await world.turn(approval_decisions=[deny(refused), approve(post)])
    shown = world.prepared.requests[1].messages[-1]
    assert isinstance(shown, UserMessage)
    assert [part.name for part in shown.content if isinstance(part, ToolResult)] == [
        "post",
        "read",
        "write",
        "nope",
        "deny",
    ]
    closed = [one.call_id for one in world.journal.of(ToolCompleted)]
    closed += [one.call_id for one in world.journal.of(ToolSettled)]
    assert sorted(closed) == [f"call_1_1_{index}" for index in range(5)]


async def test_t53_a_card_shows_the_pinned_title_or_the_raw_name() -> None:
    hidden = MemoryTool("post", POST, asks=True, advertised=False)
    world = world_of("post", tools=[hidden])
    first = await world.turn()
    assert first.pending_approvals[0].title == "post"
    assert first.pending_approvals[0].definition_digest == "digest-post"
    world.tools.by_name["post"].advertised = True
    second = await world.turn()
    assert second.pending_approvals[0].title == "Title of post"


async def test_t54_a_decision_not_yet_used_is_passed_again_and_executes_once() -> None:
    world = world_of("post", tools=[MemoryTool("post", POST, asks=True)])
    first = await world.turn()
    decision = approve(first.pending_approvals[0])
    document = world.run.dump_json()
    world.run = AgentRun.load(document)
    await world.turn(approval_decisions=[decision])
    assert world.tools.ran == ["post"]


async def test_t55_an_executed_approved_call_is_not_executed_again_after_a_restart() -> None:
    world = World(
        [reply(called("c1", "post", {})), reply(called("c2", "post", {"x": 1})), reply(said("ok"))],
        MemoryTool("post", POST, asks=True),
    )
    first = await world.turn()
    second = await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    world.crash(len(world.journal.facts))
    await world.turn(approval_decisions=[approve(second.pending_approvals[0], turn_id="turn_2")])
    assert [call.call_id for call in world.tools.calls] == ["call_1_1_0", "call_2_2_0"]


async def test_t56_four_pauses_in_a_row_each_surface_and_no_effect_repeats() -> None:
    replies = [reply(called(f"c{n}", "post", {"n": n})) for n in range(4)]
    world = World([*replies, reply(said("ok"))], MemoryTool("post", POST, asks=True))
    result = await world.turn()
    for number in range(1, 5):
        assert result.ended_by is EndedBy.PAUSE
        (pending,) = result.pending_approvals
        result = await world.turn(approval_decisions=[approve(pending, turn_id=f"turn_{number}")])
    assert result.text == "ok"
    assert [call.args["n"] for call in world.tools.calls] == [0, 1, 2, 3]


async def test_a_read_of_sandbox_and_connector_at_once_counts_as_read_only() -> None:
    world = world_of(
        "post",
        "compare",
        tools=[MemoryTool("post", POST, asks=True), MemoryTool("compare", READ | CONNECTOR)],
    )
    await world.turn()
    assert world.tools.ran == ["compare"]


async def test_on_a_clean_context_a_card_is_judged_once() -> None:
    """T49 the other way round: a sibling that brought nothing in changes no card."""
    world = world_of(
        "post", "read", tools=[MemoryTool("post", POST, asks=True), MemoryTool("read", READ)]
    )
    await world.turn()
    assert world.tools.gated == ["post", "read"]
