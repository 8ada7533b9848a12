"""Pages of events, the long poll, and one event uncut."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.support.api.server import Served, served
from tests.support.api.world import pointers, problem
from tests.support.database.postgres import (
    approval_requested,
    cancelled,
    new_id,
    paused,
    said,
    started,
    tool_completed,
)

if TYPE_CHECKING:
    from typing import Any

    from app.store.open import Store
    from tests.support.database.postgres import Talk

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def two_runs(streaming: Served) -> tuple[Talk, str, str]:
    """A conversation with the seqs 1 created, 2 4 5 a run, 3 6 another that is over as well."""
    talk = await streaming.talk()
    first, second = await talk.ask(), await talk.ask()
    await talk.request(started(first))
    await talk.request(cancelled(first))
    await talk.request(cancelled(second))
    return talk, first, second


def seqs(page: dict[str, Any]) -> list[int]:
    return [item["seq"] for item in page["items"]]


async def test_a_page_of_a_run_ascends_and_says_where_the_next_begins(streaming: Served) -> None:
    _, run, _ = await two_runs(streaming)
    async with streaming.http() as http:
        path = f"/v1/runs/{run}/events"
        page = (await http.get(path, params={"limit": 2})).json()
        assert (seqs(page), page["next_after"], page["head_seq"]) == ([2, 4], 4, 5)
        page = (await http.get(path, params={"limit": 2, "after": 4})).json()
        assert (seqs(page), page["next_after"], page["head_seq"]) == ([5], 5, 5)
        page = (await http.get(path, params={"after": 5})).json()
        assert (seqs(page), page["next_after"], page["head_seq"]) == ([], 5, 5)


async def test_a_page_of_a_conversation_has_the_events_of_all_runs(streaming: Served) -> None:
    talk, run, _ = await two_runs(streaming)
    async with streaming.http() as http:
        all_of_it = (await http.get(f"/v1/conversations/{talk.id}/events")).json()
        of_run = (await http.get(f"/v1/runs/{run}/events")).json()
    assert (seqs(all_of_it), all_of_it["head_seq"]) == (
        [1, 2, 3, 4, 5, 6, 7, 8],
        8,
    )
    assert [item for item in all_of_it["items"] if item["run_id"] == run] == of_run["items"]


async def test_a_page_has_the_form_of_the_catalogue(streaming: Served) -> None:
    talk, _, _ = await two_runs(streaming)
    async with streaming.http() as http:
        answer = await http.get(f"/v1/conversations/{talk.id}/events", params={"limit": 1})
    assert answer.headers["content-type"] == "application/json"
    [item] = answer.json()["items"]
    assert item.keys() == {
        "conversation_id", "seq", "run_id", "turn_id", "step", "type", "at", "trust", "data",
    }  # fmt: skip
    assert (item["conversation_id"], item["run_id"]) == (talk.id, None)
    assert (item["type"], item["at"]) == ("conversation.created", "2026-11-29T12:00:00.000Z")


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "/query/limit"),
        ("limit=1001", "/query/limit"),
        ("limit=5.0", "/query/limit"),
        ("after=%2B5", "/query/after"),
        ("after=-1", "/query/after"),
        ("after=x", "/query/after"),
        ("after=9007199254740992", "/query/after"),
        ("wait=31", "/query/wait"),
        ("wait=-1", "/query/wait"),
        ("cursor=x", "/query/cursor"),
        ("after=1&after=2", "/query/after"),
    ],
)
async def test_a_parameter_out_of_bounds_is_refused_and_never_clamped(
    streaming: Served, query: str, pointer: str
) -> None:
    talk, run, _ = await two_runs(streaming)
    async with streaming.http() as http:
        for path in (f"/v1/runs/{run}/events", f"/v1/conversations/{talk.id}/events"):
            document = problem(await http.get(f"{path}?{query}"), 422, "request.invalid")
            assert pointers(document) == [pointer]


async def test_a_long_poll_answers_with_the_first_item_that_comes(streaming: Served) -> None:
    talk = await streaming.talk()
    async with streaming.http() as http, asyncio.TaskGroup() as tasks:
        path = f"/v1/conversations/{talk.id}/events"
        answer = tasks.create_task(http.get(path, params={"after": 1, "wait": 20}))
        await streaming.somebody_waits_for(talk)
        run = await talk.ask()
    page = answer.result().json()
    assert [(item["seq"], item["run_id"]) for item in page["items"]] == [(2, run)]


async def test_a_long_poll_with_something_to_show_does_not_wait(streaming: Served) -> None:
    talk = await streaming.talk()
    async with streaming.http() as http, asyncio.timeout(5):
        page = (await http.get(f"/v1/conversations/{talk.id}/events", params={"wait": 30})).json()
    assert seqs(page) == [1]


async def test_a_long_poll_without_an_item_ends_empty(streaming: Served) -> None:
    talk = await streaming.talk()
    async with streaming.http() as http, asyncio.TaskGroup() as tasks:
        path = f"/v1/conversations/{talk.id}/events"
        answer = tasks.create_task(http.get(path, params={"after": 1, "wait": 20}))
        await streaming.somebody_waits_for(talk)
        streaming.clock.step(20)
    page = answer.result().json()
    assert (page["items"], page["next_after"], page["head_seq"]) == ([], 1, 1)


async def test_a_long_poll_ends_when_the_process_goes_down(
    shared_store: Store, tenant: str
) -> None:
    async with served(shared_store, tenant) as streaming:
        talk = await streaming.talk()
        async with streaming.http() as http, asyncio.TaskGroup() as tasks:
            path = f"/v1/conversations/{talk.id}/events"
            answer = tasks.create_task(http.get(path, params={"after": 1, "wait": 20}))
            await streaming.somebody_waits_for(talk)
            streaming.edge.event_log._wakeups.close()
        assert answer.result().json()["items"] == []


async def test_one_event_is_the_same_as_on_its_page(streaming: Served) -> None:
    talk, run, _ = await two_runs(streaming)
    async with streaming.http() as http:
        page = (await http.get(f"/v1/runs/{run}/events")).json()
        for item in page["items"]:
            one = await http.get(f"/v1/conversations/{talk.id}/events/{item['seq']}")
            assert one.json() == item


async def test_a_text_over_64_kib_is_cut_on_a_page_and_whole_on_its_own(streaming: Served) -> None:
    talk = await streaming.talk()
    run = await talk.ask()
    await talk.request(started(run), tool_completed(run, "call", "x" * 65_537), cancelled(run))
    async with streaming.http() as http:
        page = (await http.get(f"/v1/runs/{run}/events")).json()
        [cut] = [item for item in page["items"] if item["type"] == "tool.completed"]
        whole = (await http.get(f"/v1/conversations/{talk.id}/events/{cut['seq']}")).json()
    assert (cut["cut"], len(cut["data"]["result"])) == (["/result"], 65_536)
    assert whole["data"]["result"] == "x" * 65_537
    assert "cut" not in whole


async def test_a_page_of_long_texts_ends_before_its_limit_and_goes_on_where_it_ended(
    streaming: Served,
) -> None:
    talk = await streaming.talk()
    run = await talk.ask()
    for _ in range(25):
        await talk.request(*[tool_completed(run, "call", "x" * 20_000) for _ in range(20)])
    after, had, pages = 0, list[int](), 0
    async with streaming.http() as http:
        while True:
            params = {"after": after, "limit": 1000}
            page = (await http.get(f"/v1/runs/{run}/events", params=params)).json()
            had, pages, after = had + seqs(page), pages + 1, page["next_after"]
            if after >= page["head_seq"]:
                break
    assert had == list(range(2, 503))
    assert pages > 1


async def test_what_is_missing_foreign_or_not_there_is_404(streaming: Served) -> None:
    talk, run, _ = await two_runs(streaming)
    async with streaming.http() as http:
        problem(await http.get(f"/v1/conversations/{talk.id}/events/9"), 404, "not_found")
        problem(await http.get(f"/v1/conversations/{new_id('conv')}/events"), 404, "not_found")
        problem(await http.get(f"/v1/runs/{new_id('run')}/events"), 404, "not_found")
    for token in (streaming.token("mallory"), streaming.token(tenant="elsewhere")):
        async with streaming.http(token) as http:
            problem(await http.get(f"/v1/runs/{run}/events"), 404, "not_found")
            problem(await http.get(f"/v1/conversations/{talk.id}/events"), 404, "not_found")
            problem(await http.get(f"/v1/conversations/{talk.id}/events/1"), 404, "not_found")


async def test_reading_needs_its_scope(streaming: Served) -> None:
    talk, run, _ = await two_runs(streaming)
    async with streaming.http(streaming.token(scopes=("agents:read",))) as http:
        for path in (
            f"/v1/runs/{run}/events",
            f"/v1/conversations/{talk.id}/events",
            f"/v1/conversations/{talk.id}/events/1",
            "/v1/audit/events",
        ):
            problem(await http.get(path), 403, "auth.scope")


async def test_an_approver_reads_the_run_and_not_the_conversation(streaming: Served) -> None:
    talk = await streaming.talk()
    run = await talk.ask()
    asked = approval_requested(new_id("appr"), run, talk.id)
    await talk.request(started(run), said(run, "well"), asked, paused(run))
    async with streaming.http(streaming.token("bob", roles=("approver",))) as http:
        page = (await http.get(f"/v1/runs/{run}/events")).json()
        assert seqs(page) == [2, 3, 4, 5, 6]
        problem(await http.get(f"/v1/conversations/{talk.id}/events"), 404, "not_found")


async def test_the_audit_log_is_the_tenants_own_and_for_administrators(streaming: Served) -> None:
    async with streaming.http() as http:
        saved = await http.put("/v1/agents/helper", json={"model": "script"})
        assert saved.status_code == 201
        problem(await http.get("/v1/audit/events"), 403, "auth.scope")
    async with streaming.http(streaming.token("boss", scopes=("admin",))) as http:
        page = (await http.get("/v1/audit/events")).json()
        assert [item["type"] for item in page["items"]] == ["agent.saved", "log.sealed"]
        assert (page["next_after"], page["head_seq"]) == (2, 2)
    other = streaming.token("boss", scopes=("admin",), tenant="elsewhere-" + streaming.tenant)
    async with streaming.http(other) as http:
        assert (await http.get("/v1/audit/events")).json() == {
            "items": [], "next_after": 0, "head_seq": 0,
        }  # fmt: skip
