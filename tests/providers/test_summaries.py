"""Summarisers: the one that needs no model, one over a model, and which an agent has."""

from __future__ import annotations

import json

import pytest

from app.ids import Identity
from app.providers.directory import ProviderDirectory
from app.providers.endpoint import Endpoint
from app.providers.summaries import ExtractSummarizer, ModelSummarizer, Summarizers
from app.turn.ports import CacheHint, ProviderError
from tests.providers.played import NotedClock
from tests.providers.vendors import CHAT, asking
from tests.support.loopback.model_servers import chat, chat_piece, refused
from tests.support.turn.provider import PreparedProvider, reply, said

WHOSE = Identity("acme", "alice", "conv_1")
ITEMS = ["user: find it", 'call of read: {"n":1}', "result of read: much", "assistant: found: it"]


async def extract(prior: str, *items: str) -> str:
    return await ExtractSummarizer().summarize(prior, items, identity=WHOSE)


async def test_the_extract_is_what_was_said_after_what_was_known() -> None:
    assert await extract("Known.", *ITEMS) == "Known.\nfind it\nfound: it"
    assert await extract("", *ITEMS) == "find it\nfound: it"


async def test_of_each_text_240_characters_are_taken_and_8_kib_of_all() -> None:
    assert await extract("", "user: " + "é" * 300) == "é" * 240
    long = await extract("", *["user: " + "é" * 240] * 30)
    # Seventeen lines of 481 bytes, the last without its line break, are 8176.
    assert long == "\n".join(["é" * 240] * 17)


async def test_beyond_8_kib_the_oldest_lines_go_so_that_the_newest_are_always_taken() -> None:
    first = await extract("", *[f"user: {n:03} {'a' * 236}" for n in range(40)])
    # With their line breaks, 34 lines of 240 bytes are one byte more than 8 KiB.
    assert [line[:3] for line in first.split("\n")] == [f"{n:03}" for n in range(7, 40)]
    prior = f"{first}\nIdentifiers: run_123456"
    later = await extract(prior, f"user: {'b' * 240}", "assistant: newer")
    assert later.startswith("008 ")
    assert later.endswith(f"\nIdentifiers: run_123456\n{'b' * 240}\nnewer")


async def test_of_one_long_line_that_a_model_wrote_its_end_stays() -> None:
    assert await extract("é" * 8192, "user: x") == "é" * 4095 + "\nx"


async def test_where_nobody_said_anything_the_tools_are_named() -> None:
    calls = ["call of read: {}", "result of read: x", "call of write: {}", "call of read: {}"]
    assert await extract("", *calls) == "Tools called: read (2), write (1)."
    assert await extract("Known.", *calls) == "Known.\nTools called: read (2), write (1)."
    assert await extract("") == ""


async def test_a_model_gets_all_as_data_and_no_tool() -> None:
    answer = chat(chat_piece({"content": "Short"}), chat_piece({"content": "."}, finish="stop"))
    async with asking(CHAT, answer) as (provider, server):
        summarizer = ModelSummarizer(CHAT, provider)
        assert await summarizer.summarize("Known.", ITEMS, identity=WHOSE) == "Short."
    [asked] = server.asked
    assert "tools" not in asked.body
    system, said = asked.body["messages"]
    assert (system["role"], said["role"]) == ("system", "user")
    assert json.loads(said["content"]) == {"prior": "Known.", "items": ITEMS}


async def test_t8_t120_a_summary_marks_no_prefix_and_offers_no_search() -> None:
    prepared = PreparedProvider([reply(said("Short."))])
    assert await ModelSummarizer("small", prepared).summarize("", ITEMS, identity=WHOSE) == "Short."
    [request] = prepared.requests
    assert (request.cache_hint, request.web_search, request.tools) == (CacheHint.NONE, False, ())


async def test_a_model_that_fails_is_asked_once() -> None:
    async with asking(CHAT, refused(503, {"error": {"message": "busy"}})) as (provider, server):
        with pytest.raises(ProviderError):
            await ModelSummarizer(CHAT, provider).summarize("", ITEMS, identity=WHOSE)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("setting", "agent", "model"),
    [
        (None, "script", "extract"),
        (None, "openai:gpt-x", "openai:gpt-x"),
        ("extract", "openai:gpt-x", "extract"),
        ("script", "openai:gpt-x", "extract"),
        ("anthropic:claude-x", "openai:gpt-x", "anthropic:claude-x"),
        ("anthropic:claude-x", "script", "extract"),
    ],
)
def test_who_summarises_for_an_agent(setting: str | None, agent: str, model: str) -> None:
    directory = ProviderDirectory(NotedClock())
    assert Summarizers(directory, model=setting).of(agent).model == model


def test_how_much_a_model_reads_is_known_of_vendors_and_where_it_was_said() -> None:
    servers = {"small": Endpoint(context_window=4096), "mute": Endpoint()}
    directory = ProviderDirectory(NotedClock(), compatible=servers)
    known = {
        model: directory.context_window(model)
        for model in (
            "script", "openai:x", "anthropic:x", "google:x", "compatible:small/m",
            "compatible:mute", "nobody:x",
        )
    }  # fmt: skip
    assert known == {
        "script": None,
        "openai:x": 128_000,
        "anthropic:x": 200_000,
        "google:x": 1_000_000,
        "compatible:small/m": 4096,
        "compatible:mute": None,
        "nobody:x": None,
    }
