from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.log.holds import HoldChanges, HoldRow
from tests.support.database.postgres import new_id

if TYPE_CHECKING:
    from app.store.open import Store


def row(tenant: str, **fields: object) -> HoldRow:
    """A hold of Alice's that has acknowledged nothing."""
    hold = HoldRow(tenant, new_id("run"), new_id("hold"), "alice", window=8, acknowledged=0)
    return replace(hold, **fields)  # type: ignore[arg-type]  # the fields of each test


async def told(store: Store, tenant: str, changes: HoldChanges | None = None) -> list[HoldRow]:
    """What an exchange answers of the tenant."""
    rows = await store.holds.exchange(changes or HoldChanges())
    return [hold for hold in rows if hold.tenant == tenant]


async def test_a_hold_is_read_as_it_was_written(store: Store, tenant: str) -> None:
    hold = row(tenant, principal="al\0ice")
    assert await told(store, tenant, HoldChanges((hold,))) == [hold]


async def test_an_acknowledgement_only_grows(store: Store, tenant: str) -> None:
    hold = row(tenant, acknowledged=5)
    await told(store, tenant, HoldChanges((hold,)))
    await told(store, tenant, HoldChanges((replace(hold, acknowledged=9),)))
    assert await told(store, tenant, HoldChanges((hold,))) == [replace(hold, acknowledged=9)]


async def test_a_holder_that_has_gone_leaves_nothing(store: Store, tenant: str) -> None:
    hold = row(tenant)
    await told(store, tenant, HoldChanges((hold,)))
    assert await told(store, tenant, HoldChanges(gone=(hold.holder,))) == []


async def test_a_demotion_stays_whatever_its_holder_writes_and_after_it_has_gone(
    store: Store, tenant: str
) -> None:
    hold = row(tenant)
    await told(store, tenant, HoldChanges((replace(hold, demoted_s=0.0),)))
    await told(store, tenant, HoldChanges((hold,)))
    [demoted] = await told(store, tenant, HoldChanges(gone=(hold.holder,)))
    assert demoted.demoted_s is not None
    assert 0 <= demoted.demoted_s < 60


async def test_a_hold_whose_process_is_silent_for_ten_seconds_is_over(
    store: Store, tenant: str
) -> None:
    hold = row(tenant)
    await told(store, tenant, HoldChanges((hold,)))
    await store.everyone.pool.execute(
        "UPDATE stream_holds SET renewed_at = now() - interval '11 seconds' WHERE holder = $1",
        hold.holder,
    )
    assert await told(store, tenant) == []
    assert await told(store, tenant, HoldChanges((hold,))) == [hold]


async def test_a_demotion_is_forgotten_after_five_minutes(store: Store, tenant: str) -> None:
    hold = row(tenant, demoted_s=0.0)
    await told(store, tenant, HoldChanges((hold,)))
    await store.everyone.pool.execute(
        "UPDATE stream_holds SET demoted_at = now() - interval '301 seconds' WHERE holder = $1",
        hold.holder,
    )
    assert await told(store, tenant) == []
