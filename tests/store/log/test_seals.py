"""Seals: what stands in a log where a turn ends, signed by the service (service.md 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.store.log.rebuild import rebuild
from app.trust.seal import Seal, verify_seal
from tests.support.database.postgres import Talk, cancelled, completed, said, started
from tests.support.log.seals import SERVICE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.store.open import Store
    from app.trust.keys import P256Key

pytestmark = pytest.mark.postgres

KID = SERVICE.public.thumbprint()
KEYS: dict[str, P256Key] = {KID: SERVICE.public}


async def types(store: Store, conversation_id: str) -> list[str]:
    found = await store.everyone.pool.fetch(
        "SELECT type FROM events WHERE conversation_id = $1 ORDER BY seq", conversation_id
    )
    return [row["type"] for row in found]


async def seals(store: Store, conversation_id: str) -> Sequence[Seal]:
    """The seals of a log, every one of which is the service's."""
    found = await store.everyone.pool.fetch(
        """
        SELECT s.data::json ->> 'from_seq' AS first, s.data::json ->> 'through_seq' AS last,
            s.data::json ->> 'count' AS count, s.data::json ->> 'root' AS root,
            s.data::json ->> 'signature' AS signature, s.data::json ->> 'kid' AS kid,
            encode(e.hash, 'hex') AS hash, s.run_id
        FROM events s JOIN events e ON e.conversation_id = s.conversation_id
            AND e.seq = (s.data ->> 'through_seq')::bigint
        WHERE s.conversation_id = $1 AND s.type = 'log.sealed' ORDER BY s.seq""",
        conversation_id,
    )
    read: list[Seal] = []
    for row in found:
        seal = Seal(
            conversation_id, int(row["first"]), int(row["last"]), int(row["count"]), row["root"]
        )
        assert verify_seal(seal, signature=row["signature"], kid=row["kid"], keys=KEYS) is None
        assert (row["root"], row["run_id"]) == (row["hash"], None)
        read.append(seal)
    return read


def stretches(found: Sequence[Seal]) -> list[tuple[int, int, int]]:
    return [(seal.from_seq, seal.through_seq, seal.count) for seal in found]


async def test_the_end_of_a_run_is_sealed_in_the_append_that_ends_it(
    store: Store, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    run = await talk.ask()
    lease = await talk.claim()
    await talk.write(lease, started(run))
    assert "log.sealed" not in await types(store, talk.id)
    finished = await talk.finish(lease, said(run, "that was all"), completed(run))
    assert [event.type for event in finished] == ["text.delta", "run.completed"]
    assert await types(store, talk.id) == [
        "conversation.created", "run.created", "run.started", "text.delta", "run.completed",
        "log.sealed",
    ]  # fmt: skip
    assert stretches(await seals(store, talk.id)) == [(1, 5, 5)]
    # Postgres says of each row which transaction wrote it.
    wrote = await store.everyone.pool.fetch(
        "SELECT DISTINCT xmin::text FROM events WHERE conversation_id = $1 AND seq >= 4", talk.id
    )
    assert len(wrote) == 1


async def test_each_seal_begins_where_the_one_before_ended(
    store: Store, tenant: str, dsn: str
) -> None:
    """By a worker, by a request, and by a process that knows nothing of the log's end."""
    talk = await Talk(store, tenant).open()
    first = await talk.ask()
    lease = await talk.claim()
    await talk.finish(lease, started(first), completed(first))
    second = await talk.ask()
    await talk.request(cancelled(second))
    assert stretches(await seals(store, talk.id)) == [(1, 4, 4), (5, 7, 3)]
    assert await rebuild(dsn, conversation_id=talk.id) == []


async def test_what_ends_no_turn_is_not_sealed(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open()
    run = await talk.ask()
    await talk.finish(await talk.claim(), started(run))
    await talk.request(said(run, "more"))
    assert await seals(store, talk.id) == []
