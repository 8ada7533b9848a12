"""Full text over the texts of tools: what is nearest to a call that no tool answers to (T117)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.log.queries import ToolQuery, ToolText

if TYPE_CHECKING:
    from app.store.open import Store

pytestmark = pytest.mark.postgres

TOOLS = [
    ToolText("crm customers search", "text limit", "Search customers. Finds people by name."),
    ToolText("crm invoice create", "customer amount", "Create an invoice. Bills a customer."),
    ToolText("git who is", "login", "Who is. Tells about an account."),
    ToolText("git kunden liste", "", "Kundenliste. Zeigt alle Kunden."),
    ToolText("crm ticket close", "ticket", "Close a ticket. The customer is told."),
]


async def nearest(store: Store, named: str, given: str = "", limit: int = 5) -> list[str]:
    query = ToolQuery(tuple(named.split()), tuple(given.split()))
    return [TOOLS[at].called for at in await store.tool_search.nearest(query, TOOLS, limit=limit)]


async def test_words_are_stemmed_and_a_name_counts_more_than_what_is_said(store: Store) -> None:
    found = await nearest(store, "find customer")
    assert found == ["crm customers search", "crm invoice create", "crm ticket close"]


async def test_words_that_english_passes_over_count_in_a_name(store: Store) -> None:
    assert await nearest(store, "who is") == ["git who is"]


async def test_names_in_other_languages_are_found(store: Store) -> None:
    assert await nearest(store, "liste kunden") == ["git kunden liste"]


async def test_the_name_called_weighs_more_than_its_arguments(store: Store) -> None:
    found = await nearest(store, "close", "invoice create amount")
    assert found[0] == "crm ticket close"
    assert (await nearest(store, "unheard", "invoice amount"))[0] == "crm invoice create"


async def test_at_most_as_many_as_asked_for_and_none_without_a_match(store: Store) -> None:
    assert len(await nearest(store, "crm customer", limit=2)) == 2
    assert await nearest(store, "weather") == []
    assert await nearest(store, "the of", "and") == []


async def test_equally_near_tools_keep_their_order(store: Store) -> None:
    twins = [ToolText("list things", "", "Lists."), ToolText("list things", "", "Lists.")]
    query = ToolQuery(("list",), ())
    assert await store.tool_search.nearest(query, twins, limit=5) == [0, 1]


@pytest.mark.parametrize(
    "word", ["'", "a'b", "!", "&|()", "x:*", "\\", "'; DROP TABLE runs; --", "a\0b", "x" * 3000]
)
async def test_no_text_is_read_as_a_query_or_as_sql(store: Store, word: str) -> None:
    strange = [ToolText(word, word, word), *TOOLS]
    query = ToolQuery(("crm", word.replace("\0", " ")), (word.replace("\0", " "),))
    places = await store.tool_search.nearest(query, strange, limit=9)
    assert {1, 2, 5} <= set(places)
