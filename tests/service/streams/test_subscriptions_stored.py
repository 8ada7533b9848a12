"""Subscriptions on a real store, within the process that writes and in another."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from app.log.envelope import Event
from app.log.queries import LogScope
from app.service.streams import subscriptions
from app.service.streams.subscriptions import CaughtUp, Ended, Subscriptions
from app.store.open import Store
from tests.support.database.postgres import Talk, completed, said, started
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from app.service.streams.subscriptions import Subscription


async def always() -> None:
    """The reader keeps its reach."""


async def caught_up(reader: Subscription) -> None:
    """Pull until the reader is live."""
    while not isinstance(await reader.next(), CaughtUp):
        pass


async def bodies_to_the_end(reader: Subscription) -> list[bytes]:
    """The texts of the events up to the end of the run."""
    bodies: list[bytes] = []
    while not isinstance(item := await reader.next(), Ended):
        if isinstance(item, Event):
            bodies.append(item.body)
    return bodies


@pytest.mark.parametrize("hints", ["of the process", "of the database", "lost"])
async def test_three_readers_see_each_event_whoever_wakes_them(
    store: Store, dsn: str, tenant: str, hints: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F66."""
    talk = await Talk(store, tenant).open()
    run = await talk.ask()
    async with Store.open(dsn, seal=SEAL, process="reader") as other:
        reading = store if hints == "of the process" else other
        following = Subscriptions(reading.database)
        if hints == "lost":
            monkeypatch.setattr(subscriptions, "FIRST_POLL_S", 0.05)
            monkeypatch.setattr(subscriptions, "LONGEST_POLL_S", 0.05)
        else:
            following.listen(reading.signals)
        with ExitStack() as open_readers:
            readers = [
                open_readers.enter_context(
                    following.follow(
                        tenant, LogScope(talk.id, run), after=0, looked_at=0, look=always
                    )
                )
                for _ in range(3)
            ]
            for reader in readers:
                await caught_up(reader)
            lease = await talk.claim()
            await talk.write(lease, started(run), said(run, "hel"))
            await talk.write(lease, said(run, "lo"))
            await talk.finish(lease, completed(run))
            seen = [await bodies_to_the_end(reader) for reader in readers]
    async with store.database.session(tenant) as session:
        log = await session.events(LogScope(talk.id, run), after=2, limit=100)
    assert seen == [[event.body for event in log]] * 3
