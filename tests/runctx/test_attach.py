"""The attachments of a run as they are found (run-context.md 3.7, 11.E)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from app.errors import IdentityRequired
from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.attach import (
    InputOptions,
    InputResolved,
    InputSkipped,
    ResolvedInputs,
    resolve_input_artifacts,
)
from app.runctx.disposition import DispositionPolicy, disposition_hints
from tests.runctx.attached import MIB, MINE, PNG, Shelf, Tools, ref

if TYPE_CHECKING:
    from app.runctx.shapes import ArtifactRef, InputArtifactView

QUARANTINED = Trust.QUARANTINED_CONTENT


async def resolved(
    store: Shelf | None, *ids: str, options: InputOptions | None = None
) -> ResolvedInputs:
    return await resolve_input_artifacts(store, MINE, ids=ids, options=options)


def views_of(found: ResolvedInputs) -> list[InputArtifactView]:
    assert found.views is not None
    return found.views


def facts_of(found: ResolvedInputs) -> list[InputResolved]:
    return [fact for fact in found.facts if isinstance(fact, InputResolved)]


async def alone(store: Shelf, **hints: str) -> InputResolved:
    """What came of the one file `a`."""
    options = InputOptions(hints=disposition_hints(hints), catalog=Tools(pdf__extract="x/y"))
    (fact,) = facts_of(await resolved(store, "a", options=options))
    return fact


@pytest.mark.parametrize("ids", [None, []])
async def test_c65_no_ids_touch_nothing(ids: list[str] | None) -> None:
    with capture_logs() as lines:
        found = await resolve_input_artifacts(None, Identity("", "", ""), ids=ids)
    assert found == ResolvedInputs(None, (), Trust.UNSPECIFIED)
    assert lines == []


async def test_an_identity_is_needed_as_soon_as_there_is_something_to_find() -> None:
    with capture_logs() as lines, pytest.raises(IdentityRequired):
        await resolve_input_artifacts(Shelf(), Identity("acme", "", "c"), ids=["a"])
    assert [line["event"] for line in lines] == ["artifact.identity_rejected"]


async def test_c66_without_a_store_every_id_is_skipped() -> None:
    with capture_logs() as lines:
        found = await resolved(None, "a", "b")
    assert found.views == []
    assert found.facts == (
        InputSkipped("a", "store_missing"),
        InputSkipped("b", "store_missing"),
    )
    assert lines == [
        {"event": "inputs.store_missing", "log_level": "warning", "run": "run_1", "count": 2}
    ]


async def test_c67_only_the_image_has_its_bytes() -> None:
    found = await resolved(Shelf(ref("t", "text/plain"), ref("p")), "t", "p")
    text, image = views_of(found)
    assert (text.disposition, text.content) == ("ref", None)
    assert (image.disposition, image.content) == ("inline", PNG)


async def test_c68_an_unknown_id_is_skipped_and_the_next_one_found() -> None:
    with capture_logs() as lines:
        found = await resolved(Shelf(ref("b")), "a", "b")
    assert [one.id for one in views_of(found)] == ["b"]
    assert found.facts[0] == InputSkipped("a", "not_found")
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["inputs.skipped"]


async def test_c69_an_id_whose_reference_fails_costs_no_other() -> None:
    shelf = Shelf(ref("a"), ref("b"), ref("c"))
    shelf.failing.add("b")
    found = await resolved(shelf, "a", "b", "c")
    assert [one.id for one in views_of(found)] == ["a", "c"]
    assert found.facts[1] == InputSkipped("b", "ref_error")


@pytest.mark.parametrize("lack", ["error", "nothing", "empty"])
async def test_c70_an_image_without_bytes_is_referred_to(lack: str) -> None:
    shelf = Shelf(ref("a"))
    shelf.content["a"] = b"" if lack == "empty" else None
    if lack == "error":
        shelf.failing.add("bytes of a")
    found = await resolved(shelf, "a")
    (one,), (fact,) = views_of(found), facts_of(found)
    assert (one.disposition, one.content) == ("ref", None)
    assert (fact.degraded, fact.degraded_from, fact.degradation_reason) == (
        True,
        "inline",
        "bytes_unavailable",
    )
    assert fact.disposition == "ref"


@pytest.mark.parametrize("stranger", ["tenant", "user", "session"])
async def test_c71_a_file_of_another_scope_is_not_there(stranger: str) -> None:
    other = replace(ref("a"), identity=replace(MINE.session_scope(), **{stranger: "other"}))
    found = await resolved(Shelf(other), "a")
    assert found.views == []
    assert found.facts == (InputSkipped("a", "not_found"),)


async def test_c72_a_tool_that_the_run_has_is_taken_at_the_callers_word() -> None:
    shelf = Shelf(ref("a", "application/pdf"))
    fact = await alone(shelf, a="tool:pdf.extract")
    assert (fact.disposition, fact.layer, fact.degraded) == (
        "tool:pdf.extract",
        "caller_hint",
        False,
    )
    assert shelf.asked == [("get_ref", "a")]


async def test_c73_a_policy_that_refers_reads_no_bytes() -> None:
    shelf = Shelf(ref("a"))
    policy = DispositionPolicy.parse({"image/*": "ref"})
    (fact,) = facts_of(await resolved(shelf, "a", options=InputOptions(policy=policy)))
    assert (fact.disposition, fact.layer, fact.degraded) == ("ref", "agent_policy", False)
    assert shelf.asked == [("get_ref", "a")]


async def test_c74_a_tool_that_the_run_lacks_is_said() -> None:
    with capture_logs() as lines:
        fact = await alone(Shelf(ref("a")), a="tool:no.such.tool")
    assert (fact.disposition, fact.degraded_from) == ("ref", "tool:no.such.tool")
    assert (fact.degradation_reason, fact.tool) == ("unknown_tool", "no.such.tool")
    assert [line["log_level"] for line in lines] == ["warning"]


async def test_c75_a_native_file_is_not_read_here() -> None:
    shelf = Shelf(ref("a"))
    policy = DispositionPolicy.parse({"image/*": "provider_native"})
    found = await resolved(shelf, "a", options=InputOptions(policy=policy))
    assert views_of(found)[0].disposition == "provider_native"
    assert not facts_of(found)[0].degraded
    assert shelf.asked == [("get_ref", "a")]


async def test_c76_an_image_goes_inline_of_itself() -> None:
    fact = await alone(Shelf(ref("a")))
    assert (fact.layer, fact.disposition) == ("runtime_default", "inline")


async def test_c78_a_skipped_id_is_resolved_nowhere() -> None:
    """The event is the driver's; here there is no fact to make one of."""
    found = await resolved(Shelf(), "a")
    assert facts_of(found) == []


async def test_c79_all_skipped_is_an_empty_list() -> None:
    assert (await resolved(Shelf(), "a", "b")).views == []


async def test_c80_a_repeated_id_is_one_attachment() -> None:
    shelf = Shelf(ref("a", "text/plain"), ref("b", "text/plain"))
    found = await resolved(shelf, "a", "b", "a")
    assert [one.id for one in views_of(found)] == ["a", "b"]
    assert len(found.facts) == 2
    assert shelf.asked == [("get_ref", "a"), ("get_ref", "b")]


async def test_c81_the_log_is_written_whoever_reads_the_facts() -> None:
    with capture_logs() as lines:
        await resolved(Shelf(ref("a", filename="secret.png")), "a", "b")
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("inputs.resolved", "debug"),
        ("inputs.skipped", "warning"),
    ]
    assert "secret" not in str(lines)


async def test_c82_a_file_too_large_to_go_inline_is_not_read() -> None:
    shelf = Shelf(ref("a", size=6 * MIB))
    fact = await alone(shelf)
    assert (fact.disposition, fact.degradation_reason) == ("ref", "inline_too_large")
    assert shelf.asked == [("get_ref", "a")]


@pytest.mark.parametrize(("size", "disposition"), [(5_242_880, "inline"), (5_242_881, "ref")])
async def test_c82_the_bound_of_one_file_is_the_last_size_that_goes_inline(
    size: int, disposition: str
) -> None:
    assert (await alone(Shelf(ref("a", size=size)))).disposition == disposition


async def test_c82_what_goes_inline_in_all_is_bounded() -> None:
    size = 9 * MIB // 2
    shelf = Shelf(*(ref(one, size=size) for one in "abcde"), content=b"x" * size)
    facts = facts_of(await resolved(shelf, *"abcde"))
    assert [fact.degradation_reason for fact in facts] == [None] * 4 + ["inline_too_large"]
    assert [one for what, one in shelf.asked if what == "get"] == [*"abcd"]


@pytest.mark.parametrize(
    ("disposition", "trust"),
    [
        ("inline", QUARANTINED),
        ("provider_native", QUARANTINED),
        ("ref", Trust.UNSPECIFIED),
        ("tool:pdf.extract", Trust.UNSPECIFIED),
    ],
)
async def test_c83_only_content_that_reaches_the_model_taints(
    disposition: str, trust: Trust
) -> None:
    options = InputOptions(hints=disposition_hints({"a": disposition}))
    found = await resolved(Shelf(ref("a", trust=QUARANTINED)), "a", options=options)
    assert found.trust is trust
    assert facts_of(found)[0].trust is QUARANTINED


async def test_c84_a_cancelled_resolution_asks_for_nothing_more() -> None:
    entered = asyncio.Event()

    class Slow(Shelf):
        @override
        async def get_ref(self, identity: Identity, artifact_id: str) -> ArtifactRef | None:
            found = await super().get_ref(identity, artifact_id)
            if artifact_id == "b":
                entered.set()
                await asyncio.Event().wait()
            return found

    shelf = Slow(ref("a", "text/plain"), ref("b"), ref("c"))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(resolved(shelf, "a", "b", "c"))
        await entered.wait()
        task.cancel()
    assert task.cancelled()
    assert shelf.asked == [("get_ref", "a"), ("get_ref", "b")]


async def test_c92_the_view_keeps_the_text_that_was_declared() -> None:
    policy = DispositionPolicy.parse({"text/plain": "tool:pdf.extract"})
    declared = "text/plain; charset=utf-8"
    found = await resolved(Shelf(ref("a", declared)), "a", options=InputOptions(policy=policy))
    assert views_of(found)[0].mime == declared
    assert (facts_of(found)[0].mime, facts_of(found)[0].media_type) == (declared, "text/plain")


async def test_c100_shared_options_serve_many_at_once() -> None:
    options = InputOptions(
        hints=disposition_hints({"a": "tool:pdf.extract"}),
        policy=DispositionPolicy.parse({"text/*": "ref"}),
        catalog=Tools(pdf__extract="x/y"),
    )
    shelf = Shelf(ref("a"), ref("b", "text/plain"), ref("c"))
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(resolved(shelf, "a", "b", "c", options=options)) for _ in range(128)
        ]
    results = [task.result() for task in tasks]
    assert all(one == results[0] for one in results)
    assert [one.disposition for one in views_of(results[0])] == [
        "tool:pdf.extract",
        "ref",
        "inline",
    ]


@pytest.mark.parametrize(
    ("tool", "trust", "shown"),
    [
        ("http_fetch", QUARANTINED, ""),
        ("http_fetch", Trust.TRUSTED_USER, "obey.txt"),
        (None, QUARANTINED, "obey.txt"),
    ],
)
async def test_c147_a_name_that_an_untrusted_tool_gave_is_withheld(
    tool: str | None, trust: Trust, shown: str
) -> None:
    given = ref("a", "text/plain", filename="obey.txt", tool=tool, trust=trust)
    assert views_of(await resolved(Shelf(given), "a"))[0].filename == shown
