"""What is offered with the escape hatch on, and the question that a miss becomes (T117, T118)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from app.log.queries import ToolQuery, ToolText
from app.policy.capability import Capability
from app.tools.executors.hatch import HatchedExecutor, query_of
from app.turn.ports import ToolSpec, WorkerScope
from tests.support.turn.tools import READ, MemoryTool, MemoryTools
from tests.tools.played import invocation

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class PlayedSearch:
    """Finds the places it was told to, and keeps what it was asked."""

    places: list[int] = field(default_factory=list)
    asked: list[tuple[ToolQuery, list[ToolText], int]] = field(default_factory=list)

    async def nearest(
        self, query: ToolQuery, tools: Sequence[ToolText], *, limit: int
    ) -> Sequence[int]:
        self.asked.append((query, list(tools), limit))
        return self.places


def hatched(
    inner: MemoryTools, *named: str, places: Sequence[int] = ()
) -> tuple[HatchedExecutor, PlayedSearch]:
    search = PlayedSearch(list(places))
    return HatchedExecutor(inner, named, search=search), search


def many(count: int, **more: Any) -> MemoryTools:
    return MemoryTools(*(MemoryTool(f"crm__tool_{at}", READ, **more) for at in range(count)))


def names(specs: Sequence[ToolSpec]) -> list[str]:
    return [spec.name for spec in specs]


def test_what_fits_is_offered_as_without_the_hatch() -> None:
    inner = many(40)
    executor, _ = hatched(inner)
    assert executor.specs() == list(inner.specs())


def test_forty_tools_are_offered_in_the_order_of_the_agent_and_no_more() -> None:
    executor, _ = hatched(many(41))
    assert names(executor.specs()) == [f"crm__tool_{at}" for at in range(40)]


def test_a_tool_named_by_itself_is_offered_wherever_it_stands_and_counts() -> None:
    executor, _ = hatched(many(60), "crm__tool_58", "crm__tool_59")
    assert names(executor.specs()) == [f"crm__tool_{at}" for at in (*range(38), 58, 59)]


def test_an_agent_that_names_every_tool_is_offered_every_tool() -> None:
    inner = many(60)
    executor, _ = hatched(inner, *names(inner.specs()))
    assert len(executor.specs()) == 60


def test_specs_of_more_than_32_kib_are_not_offered_beside_each_other() -> None:
    schema = {"type": "object", "description": "x" * 10_000}
    executor, _ = hatched(many(5, parameters=schema))
    assert names(executor.specs()) == ["crm__tool_0", "crm__tool_1", "crm__tool_2"]


async def test_a_miss_asks_among_the_tools_that_are_not_offered_and_no_others() -> None:
    inner = many(42)
    executor, search = hatched(inner, places=[1])
    found = await executor.recover_unadvertised("find_customer", {"name": "Ada"})
    assert names(found) == ["crm__tool_41"]
    (query, texts, limit) = search.asked[0]
    assert query == ToolQuery(("find", "customer"), ("name", "ada"))
    assert [text.called for text in texts] == ["crm tool 40", "crm tool 41"]
    assert limit == 5


@pytest.mark.parametrize(
    ("called", "offered"), [(42, (42, 40, 41, 43, 44)), (47, (47, 40, 41, 42, 43))]
)
async def test_the_very_tool_that_was_called_comes_first(
    called: int, offered: tuple[int, ...]
) -> None:
    """Five are offered, whether or not it is among the nearest five."""
    executor, _ = hatched(many(50), places=[0, 1, 2, 3, 4])
    found = await executor.recover_unadvertised(f"crm__tool_{called}", {})
    assert names(found) == [f"crm__tool_{at}" for at in offered]


@pytest.mark.parametrize(("count", "name"), [(40, "find_customer"), (41, "__")])
async def test_with_nothing_hidden_or_nothing_said_nothing_is_asked(count: int, name: str) -> None:
    executor, search = hatched(many(count), places=[0])
    assert list(await executor.recover_unadvertised(name, {})) == []
    assert search.asked == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("find_customer", ("find", "customer")),
        ("findCustomerByID", ("find", "customer", "by", "id")),
        ("HTTPServer.list-all", ("http", "server", "list", "all")),
        ("github__create_issue", ("github", "create", "issue")),
        ("v2_search_search", ("v2", "search")),
        ("größe:ändern", ("größe", "ändern")),
        ("'); DROP TABLE runs; --", ("drop", "table", "runs")),
    ],
)
def test_a_name_is_broken_into_words(name: str, words: tuple[str, ...]) -> None:
    assert query_of(name, {}) == ToolQuery(words, ())


def test_arguments_follow_with_their_keys_and_texts_but_without_words_of_the_name() -> None:
    args = {"customerName": "Ada", "tags": ["vip", {"since": 1815}], "find": True}
    assert query_of("find_customer", args).given == ("name", "ada", "tags", "vip", "since")


def test_a_question_is_bounded() -> None:
    query = query_of("_".join(f"n{at}" for at in range(99)), {"text": "word " + "y" * 100_000})
    assert len(query.named) == 64
    assert query.given[:2] == ("text", "word")
    assert max(map(len, query.given)) == 64


async def test_everything_else_is_what_the_executor_within_says() -> None:
    inner = MemoryTools(MemoryTool("read", READ), MemoryTool("ask", asks=True))
    executor, _ = hatched(inner)
    assert await executor.execute(invocation("read", {})) == await inner.execute(
        invocation("read", {})
    )
    assert [executor.owns(name) for name in ("read", "other")] == [True, False]
    assert executor.spec("read") == inner.spec("read")
    assert [executor.needs_approval(name) for name in ("read", "ask")] == [False, True]
    assert executor.required_capabilities("read") == {Capability.LOCAL_READ}
    assert executor.ingests_untrusted_content("other")
    assert not executor.cacheable_approval("read")
    assert not executor.is_idempotent("read")
    assert not await executor.sandbox_would_deny("read", {})
    assert await executor.post_dispatch("read", {}, "{}") is None
    assert await executor.pre_dispatch("read", {}) == await inner.pre_dispatch("read", {})
    assert executor.for_worker(WorkerScope("run_1", "call_1", ())) is inner
