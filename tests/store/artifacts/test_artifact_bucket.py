"""Artifacts whose bytes lie in a bucket: no object is needed and gone, none is left for ever."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import structlog

from app.errors import ArtifactCorrupt, StoreUnavailable
from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.shapes import NewArtifact
from app.store.artifacts.artifact_store import StoreArtifacts
from app.store.artifacts.leftovers import Leftovers
from app.store.open import Store, open_bucket
from tests.support.database.postgres import Talk
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from app.store.artifacts.bucket import Bucket
    from tests.support.loopback.buckets import S3, BucketWorld

pytestmark = pytest.mark.postgres

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def world(s3: S3) -> BucketWorld:
    return s3.bucket()


@pytest.fixture
def away(world: BucketWorld) -> Bucket:
    """The bucket, while nobody answers for it."""
    return open_bucket(replace(world.place, endpoint=NOWHERE))


@pytest.fixture
def artifacts(store: Store, world: BucketWorld) -> StoreArtifacts:
    return StoreArtifacts(store.pool, world.bucket)


@pytest.fixture
def scope(tenant: str) -> Identity:
    return Identity(tenant, "alice", f"conv-{tenant}")


def new(scope: Identity, number: int = 1, content: bytes = b"bytes") -> NewArtifact:
    return NewArtifact(
        id=f"art_{scope.tenant}_{number}",
        namespace="uploads",
        content=content,
        mime="text/csv",
        trust=Trust.UNSPECIFIED,
        at=NOON,
        filename="a.csv",
    )


async def left_over(store: Store, tenant: str, *, due: bool = False) -> list[str]:
    """The keys that are noted of a tenant, or those of them that may be swept."""
    rows = await store.everyone.pool.fetch(
        "SELECT key FROM artifact_leftovers WHERE tenant = $1 AND ($2 OR due_at <= now())",
        tenant,
        not due,
    )
    return [row["key"] for row in rows]


async def test_the_row_has_the_facts_and_the_bucket_the_bytes(
    store: Store, artifacts: StoreArtifacts, world: BucketWorld, scope: Identity
) -> None:
    kept, _ = await artifacts.put(scope, new(scope))
    assert world.keys == [kept.id]
    row = await store.everyone.pool.fetchrow("SELECT content FROM artifacts WHERE id = $1", kept.id)
    assert row is not None
    assert row["content"] is None
    assert await left_over(store, scope.tenant) == []


async def test_an_object_that_is_gone_is_told_from_an_artifact_that_is_gone(
    artifacts: StoreArtifacts, world: BucketWorld, scope: Identity
) -> None:
    kept, _ = await artifacts.put(scope, new(scope))
    await world.bucket.delete([kept.id])
    with pytest.raises(ArtifactCorrupt):
        await artifacts.get(scope, kept.id)


async def test_what_was_kept_before_there_was_a_bucket_is_read_from_its_row(
    store: Store, artifacts: StoreArtifacts, world: BucketWorld, scope: Identity
) -> None:
    before, _ = await StoreArtifacts(store.pool).put(scope, new(scope))
    assert await artifacts.get(scope, before.id) == b"bytes"
    again, is_new = await artifacts.put(scope, new(scope, 2))
    assert (again.id, is_new) == (before.id, False)
    await artifacts.delete(scope, before.id)
    await Leftovers(store.everyone, world.bucket).sweep()
    assert world.keys == []


async def test_without_the_bucket_its_artifacts_are_listed_and_say_why_they_are_not_read(
    store: Store, artifacts: StoreArtifacts, scope: Identity
) -> None:
    kept, _ = await artifacts.put(scope, new(scope))
    alone = StoreArtifacts(store.pool)
    assert await alone.list(scope) == [kept]
    with pytest.raises(StoreUnavailable, match="lie in a bucket"):
        await alone.get(scope, kept.id)


async def test_an_object_goes_with_its_artifact_and_with_no_other_of_the_same_bytes(
    store: Store, artifacts: StoreArtifacts, world: BucketWorld, scope: Identity
) -> None:
    kept, _ = await artifacts.put(scope, new(scope))
    elsewhere = replace(scope, session="conv_other")
    other, _ = await artifacts.put(elsewhere, new(scope, 2))
    await artifacts.delete(scope, kept.id)
    assert await left_over(store, scope.tenant, due=True) == [kept.id]
    await Leftovers(store.everyone, world.bucket).sweep()
    assert world.keys == [other.id]
    assert await artifacts.get(elsewhere, other.id) == b"bytes"
    assert await left_over(store, scope.tenant) == []


async def test_bytes_that_the_scope_has_already_leave_nothing_behind(
    store: Store, artifacts: StoreArtifacts, world: BucketWorld, scope: Identity
) -> None:
    first, _ = await artifacts.put(scope, new(scope))
    await artifacts.put(scope, new(scope, 2))
    await Leftovers(store.everyone, world.bucket).sweep()
    assert world.keys == [first.id]


async def test_a_large_object_that_begins_as_text_is_told_to_be_bytes(
    artifacts: StoreArtifacts, scope: Identity
) -> None:
    """Its type is said before its end is known, which may be anything."""
    told = []
    for number, begins in enumerate((b"a,b", b"%PDF-1.7")):
        content = begins + b" " * (6 * 1024 * 1024)
        mime = "application/pdf" if number else "text/csv"
        plain = replace(new(scope, number, content), mime=mime)
        kept, _ = await artifacts.put(scope, plain)
        url = await artifacts.presigned(scope, kept.id, seconds=300)
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(url or "")
        assert answer.content == content
        told.append(answer.headers["content-type"].partition(";")[0])
    assert told == ["application/octet-stream", "application/pdf"]


async def test_a_large_result_is_kept_in_the_database_while_the_bucket_is_away(
    store: Store, artifacts: StoreArtifacts, away: Bucket, scope: Identity
) -> None:
    """Noted as an object first, which is none, and as pieces then; each goes its own way."""
    large = new(scope, 1, b"x" * (2 * 1024 * 1024))
    with pytest.raises(StoreUnavailable):
        await StoreArtifacts(store.pool, away).put(scope, large)
    kept, _ = await StoreArtifacts(store.pool).put(scope, large)
    assert await left_over(store, scope.tenant, due=True) == [kept.id]
    await Leftovers(store.everyone, artifacts._bucket).sweep()
    assert await artifacts.get(scope, kept.id) == large.content
    assert await left_over(store, scope.tenant) == []


async def test_objects_wait_for_a_process_that_has_the_bucket(
    store: Store, artifacts: StoreArtifacts, world: BucketWorld, scope: Identity
) -> None:
    kept, _ = await artifacts.put(scope, new(scope))
    await artifacts.delete(scope, kept.id)
    await Leftovers(store.everyone).sweep()
    assert (world.keys, await left_over(store, scope.tenant)) == ([kept.id], [kept.id])


async def test_while_the_bucket_is_away_nothing_is_kept_and_nothing_is_lost(
    store: Store, artifacts: StoreArtifacts, away: Bucket, scope: Identity
) -> None:
    kept, _ = await artifacts.put(scope, new(scope))
    apart = StoreArtifacts(store.pool, away)
    with pytest.raises(StoreUnavailable, match="bucket"):
        await apart.get(scope, kept.id)
    with pytest.raises(StoreUnavailable, match="bucket"):
        await apart.put(scope, new(scope, 2, b"more"))
    assert await apart.list(scope) == [kept]
    await apart.delete(scope, kept.id)
    with pytest.raises(StoreUnavailable, match="bucket"):
        await Leftovers(store.everyone, away).sweep()
    assert kept.id in await left_over(store, scope.tenant, due=True)


@dataclass
class Lame:
    """A bucket that fails to delete once, and says when it has deleted."""

    bucket: Bucket
    has_failed: bool = False
    deleted: asyncio.Event = field(default_factory=asyncio.Event)

    async def delete(self, keys: Sequence[str]) -> None:
        if not self.has_failed:
            self.has_failed = True
            raise StoreUnavailable("not just now")
        await self.bucket.delete(keys)
        self.deleted.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bucket, name)


async def test_the_task_sweeps_again_and_again_whatever_happens(
    store: Store, artifacts: StoreArtifacts, world: BucketWorld, scope: Identity
) -> None:
    kept, _ = await artifacts.put(scope, new(scope))
    await artifacts.delete(scope, kept.id)
    lame = Lame(world.bucket)
    with structlog.testing.capture_logs() as told:
        async with asyncio.timeout(30), asyncio.TaskGroup() as owner:
            sweeping = owner.create_task(Leftovers(store.everyone, lame, tick_s=0.01).run())
            await lame.deleted.wait()
            sweeping.cancel()
    assert world.keys == []
    assert [line["event"] for line in told] == ["artifacts.unswept"]


async def test_two_sweepers_do_not_wait_for_each_other(
    store: Store, artifacts: StoreArtifacts, world: BucketWorld, scope: Identity
) -> None:
    for number in range(4):
        kept, _ = await artifacts.put(scope, new(scope, number, b"%d" % number))
        await artifacts.delete(scope, kept.id)
    sweepers = [Leftovers(store.everyone, world.bucket) for _ in range(2)]
    await asyncio.gather(*(sweeper.sweep() for sweeper in sweepers))
    assert (world.keys, await left_over(store, scope.tenant)) == ([], [])


async def test_a_presigned_url_reads_the_bytes_as_a_download_and_soon_no_more(
    store: Store, artifacts: StoreArtifacts, scope: Identity
) -> None:
    kept, _ = await artifacts.put(scope, new(scope))
    url = await artifacts.presigned(scope, kept.id, seconds=300)
    assert url is not None
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(url)
    assert (answer.status_code, answer.content) == (200, b"bytes")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == "attachment"
    assert "X-Amz-Expires=300" in url
    assert "secret" not in url
    stranger = replace(scope, user="mallory")
    assert await artifacts.presigned(stranger, kept.id, seconds=300) is None
    assert await StoreArtifacts(store.pool).presigned(scope, kept.id, seconds=300) is None


@pytest.fixture
async def housed(dsn: str, away: Bucket) -> AsyncIterator[Store]:
    """A store whose bucket is away."""
    async with Store.open(dsn, seal=SEAL, process="bucket-away", bucket=away) as opened:
        yield opened


async def test_a_result_is_kept_in_the_database_while_the_bucket_is_away(
    housed: Store, tenant: str
) -> None:
    """A call is not made again for its result, so that is kept wherever it can be."""
    talk = await Talk(housed, tenant).open()
    await talk.ask()
    lease = await talk.claim()
    scope = Identity(tenant, "alice", talk.id)
    kept = await housed.leases.keep(lease, new(scope))
    assert await housed.artifacts.get(scope, kept.id) == b"bytes"
