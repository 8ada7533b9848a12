"""A summariser that does not answer in time, and how long it and the memory write have."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from app.service.context import compaction, remembering
from tests.service.context.test_compaction import SOON, TASK, compactions, first_text, reading
from tests.support.played.summaries import PlayedSummaries
from tests.support.service.house import House

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.ids import Identity
    from app.store.open import Store


class Silent(PlayedSummaries):
    """Answers once, and never again."""

    @override
    async def summarize(self, prior: str, items: Sequence[str], *, identity: Identity) -> str:
        if self.asked:
            self.asked.append((prior, list(items)))
            await asyncio.Event().wait()
        return await super().summarize(prior, items, identity=identity)


@pytest.mark.postgres
async def test_c172_a_summary_that_takes_too_long_is_given_up(
    store: Store, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event; the prior summary stays in force, and the run goes on."""
    monkeypatch.setattr(compaction, "SUMMARY_S", 0.1)
    house = House(store, tenant, summarizers=Silent())
    alice = await house.person()
    await house.agent(**SOON)
    house.script.program = reading(7)
    with capture_logs() as logs:
        run = await house.drive(await alice.run(TASK))
    assert run.status == "completed"
    [first] = await compactions(house, run)
    assert [prior for prior, _ in house.summarizers.asked] == ["", first_text(first)]
    [block] = house.script.requests[-1].context
    assert first_text(first).splitlines()[0] in block
    failed = [line for line in logs if line["event"] == "history.compaction_failed"]
    assert [line["kind"] for line in failed] == ["TimeoutError"]


def test_a_summary_has_thirty_seconds_and_a_memory_write_ten() -> None:
    """run-context.md 9.2, 10."""
    assert (compaction.SUMMARY_S, remembering.WRITE_S) == (30.0, 10.0)
