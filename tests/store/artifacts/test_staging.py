"""Bytes that come in pieces and are read in pieces, with both drivers: nothing stays that nobody
keeps, and whoever is slow holds nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from app.errors import ArtifactCorrupt, ArtifactGone, StoreUnavailable
from app.store.artifacts.artifact_rows import ArtifactRows
from app.store.artifacts.leftovers import Leftovers
from tests.store.artifacts.test_artifact_store import artifacts, bucket, new, scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from app.ids import Identity
    from app.runctx.shapes import ArtifactRef
    from app.store.artifacts.artifact_store import StoreArtifacts
    from app.store.open import Store
    from tests.support.loopback.buckets import BucketWorld

__all__ = ["artifacts", "bucket", "scope"]

pytestmark = pytest.mark.postgres

MIB = 1024 * 1024
LARGE = bytes(range(256)) * (4 * 4096) + b"end"


class Cut(Exception):
    """The client is gone."""


async def chunks(content: bytes, size: int = 64 * 1024) -> AsyncIterator[bytes]:
    for begin in range(0, len(content), size):
        yield content[begin : begin + size]


async def cut_after(content: bytes) -> AsyncIterator[bytes]:
    async for chunk in chunks(content):
        yield chunk
    raise Cut


async def uploaded(
    artifacts: StoreArtifacts, scope: Identity, content: bytes, number: int = 1
) -> tuple[ArtifactRef, bool]:
    plain = new(scope, number, mime="a/b")
    async with artifacts.staging(scope.tenant, plain.id, chunks(content), mime="a/b") as staged:
        return await artifacts.keep(scope, replace(plain, content=staged))


async def read(artifacts: StoreArtifacts, ref: ArtifactRef, part: range) -> bytes:
    return b"".join([piece async for piece in artifacts.read(ref, part)])


async def lying(store: Store, bucket: BucketWorld | None, tenant: str) -> set[str]:
    """The keys under which bytes lie outside of rows, whole or not."""
    if bucket is not None:
        return {*bucket.keys, *bucket.unfinished}
    rows = await store.everyone.pool.fetch(
        "SELECT DISTINCT key FROM artifact_pieces WHERE tenant = $1", tenant
    )
    return {row["key"] for row in rows}


async def sweep(store: Store, bucket: BucketWorld | None) -> None:
    await Leftovers(store.everyone, None if bucket is None else bucket.bucket).sweep()


async def an_hour_later(store: Store, tenant: str) -> None:
    await store.everyone.pool.execute(
        "UPDATE artifact_leftovers SET due_at = due_at - interval '1 hour' WHERE tenant = $1",
        tenant,
    )


@pytest.mark.parametrize("size", [1, MIB - 1, MIB, MIB + 1, 2 * MIB, 6 * MIB + 7])
async def test_what_comes_in_chunks_is_read_whole_and_in_parts(
    artifacts: StoreArtifacts, scope: Identity, size: int
) -> None:
    content = (LARGE * 2)[:size]
    ref, is_new = await uploaded(artifacts, scope, content)
    assert is_new
    assert (ref.size_bytes, ref.sha256) == (size, hashlib.sha256(content).hexdigest())
    assert ref.sniffed == "application/octet-stream"
    assert await artifacts.get(scope, ref.id) == content
    for part in (range(size), range(size - 1, size), range(1), range(size // 3, size - size // 4)):
        assert await read(artifacts, ref, part) == content[part.start : part.stop]


async def test_an_empty_file_is_a_file(artifacts: StoreArtifacts, scope: Identity) -> None:
    ref, _ = await uploaded(artifacts, scope, b"")
    assert (ref.size_bytes, await artifacts.get(scope, ref.id)) == (0, b"")


async def test_no_piece_is_larger_than_memory_is_to_hold(
    artifacts: StoreArtifacts, scope: Identity
) -> None:
    ref, _ = await uploaded(artifacts, scope, LARGE)
    sizes = [len(piece) async for piece in artifacts.read(ref, range(len(LARGE)))]
    assert sizes == [MIB, MIB, MIB, MIB, 3]


@pytest.mark.parametrize("size", [10, 2 * MIB, 6 * MIB])
async def test_an_upload_that_is_cut_off_leaves_nothing(
    store: Store,
    artifacts: StoreArtifacts,
    bucket: BucketWorld | None,
    scope: Identity,
    size: int,
) -> None:
    content = cut_after((LARGE * 2)[:size])
    with pytest.raises(Cut):
        async with artifacts.staging(scope.tenant, new(scope).id, content, mime="a/b"):
            pass
    await sweep(store, bucket)
    assert await artifacts.list(scope) == []
    assert await lying(store, bucket, scope.tenant) == set()


async def test_what_nobody_keeps_is_swept_at_the_next_tick(
    store: Store, artifacts: StoreArtifacts, bucket: BucketWorld | None, scope: Identity
) -> None:
    key = new(scope).id
    async with artifacts.staging(scope.tenant, key, chunks(LARGE), mime="a/b"):
        await sweep(store, bucket)
        assert await lying(store, bucket, scope.tenant) == {key}
    await sweep(store, bucket)
    assert await lying(store, bucket, scope.tenant) == set()


async def test_what_a_killed_process_took_in_is_swept_when_nobody_can_want_it(
    store: Store, artifacts: StoreArtifacts, bucket: BucketWorld | None, scope: Identity
) -> None:
    plain = new(scope)
    async with AsyncExitStack() as killed:
        staging = artifacts.staging(scope.tenant, plain.id, chunks(LARGE), mime="a/b")
        staged = await killed.enter_async_context(staging)
        await an_hour_later(store, scope.tenant)
        await sweep(store, bucket)
        assert await lying(store, bucket, scope.tenant) == set()
        with pytest.raises(StoreUnavailable, match="not where they were brought"):
            await artifacts.keep(scope, replace(plain, content=staged))
    assert await artifacts.list(scope) == []


async def test_a_transaction_that_fails_keeps_nothing(
    store: Store, artifacts: StoreArtifacts, bucket: BucketWorld | None, scope: Identity
) -> None:
    plain = new(scope)
    async with (
        artifacts.staging(scope.tenant, plain.id, chunks(LARGE), mime="a/b") as staged,
        store.everyone.pool.acquire() as connection,
    ):
        transaction = connection.transaction()
        await transaction.start()
        await ArtifactRows(connection).keep(scope, replace(plain, content=staged))
        await transaction.rollback()
    await sweep(store, bucket)
    assert await artifacts.list(scope) == []
    assert await lying(store, bucket, scope.tenant) == set()


async def test_c142_the_same_large_bytes_at_once_lie_there_once(
    store: Store, artifacts: StoreArtifacts, bucket: BucketWorld | None, scope: Identity
) -> None:
    kept = await asyncio.gather(*(uploaded(artifacts, scope, LARGE, n) for n in range(4)))
    assert sorted(is_new for _, is_new in kept) == [False] * 3 + [True]
    (ident,) = {ref.id for ref, _ in kept}
    await sweep(store, bucket)
    assert await lying(store, bucket, scope.tenant) == {ident}
    assert await artifacts.get(scope, ident) == LARGE


async def test_bytes_go_with_their_artifact(
    store: Store, artifacts: StoreArtifacts, bucket: BucketWorld | None, scope: Identity
) -> None:
    ref, _ = await uploaded(artifacts, scope, LARGE)
    await artifacts.delete(scope, ref.id)
    assert await read(artifacts, ref, range(len(LARGE))) == b""
    await sweep(store, bucket)
    assert await lying(store, bucket, scope.tenant) == set()


@pytest.mark.parametrize("number", [0, 2])
async def test_c145_no_piece_that_was_altered_is_handed_out(
    store: Store,
    artifacts: StoreArtifacts,
    bucket: BucketWorld | None,
    scope: Identity,
    number: int,
) -> None:
    ref, _ = await uploaded(artifacts, scope, LARGE)
    await alter(store, bucket, ref, number)
    pieces = artifacts.read(ref, range(ref.size_bytes))
    assert [await anext(pieces) for _ in range(number)] == [LARGE[:MIB]] * number
    with pytest.raises(ArtifactCorrupt):
        await anext(pieces)
    beside = range(MIB, MIB + 9)
    assert await read(artifacts, ref, beside) == LARGE[beside.start : beside.stop]
    with pytest.raises(ArtifactCorrupt):
        await artifacts.get(scope, ref.id)


async def alter(store: Store, bucket: BucketWorld | None, ref: ArtifactRef, number: int) -> None:
    """Change one byte of a piece behind the store's back."""
    place = number * MIB + 5
    if bucket is not None:
        altered = LARGE[:place] + b"!" + LARGE[place + 1 :]
        await bucket.bucket.put(ref.id, altered, media_type="a/b")
        return
    await store.everyone.pool.execute(
        "UPDATE artifact_pieces SET content = set_byte(content, 5, 33)"
        " WHERE key = $1 AND position = $2",
        ref.id,
        number,
    )


async def test_c145_pieces_that_are_gone_are_not_passed_over(
    store: Store, artifacts: StoreArtifacts, bucket: BucketWorld | None, scope: Identity
) -> None:
    ref, _ = await uploaded(artifacts, scope, LARGE)
    if bucket is None:
        await store.everyone.pool.execute(
            "DELETE FROM artifact_pieces WHERE key = $1 AND position = 4", ref.id
        )
    else:
        await bucket.bucket.put(ref.id, LARGE[: 4 * MIB], media_type="a/b")
    with pytest.raises(ArtifactCorrupt):
        await read(artifacts, ref, range(4 * MIB, len(LARGE)))


async def test_what_is_deleted_while_it_is_read_is_gone_and_not_altered(
    store: Store, artifacts: StoreArtifacts, bucket: BucketWorld | None, scope: Identity
) -> None:
    ref, _ = await uploaded(artifacts, scope, LARGE)
    pieces = artifacts.read(ref, range(ref.size_bytes))
    await anext(pieces)
    await artifacts.delete(scope, ref.id)
    await sweep(store, bucket)
    with pytest.raises(ArtifactGone):
        _ = [piece async for piece in pieces]


async def test_who_is_slow_to_send_or_to_read_holds_no_connection(
    store: Store, artifacts: StoreArtifacts, scope: Identity
) -> None:
    """Twice as many as there are connections, each in the middle of its file."""
    everybody = 2 * store.pool.get_max_size()
    ref, _ = await uploaded(artifacts, scope, LARGE, everybody)
    go_on = asyncio.Event()
    waiting = asyncio.Semaphore(0)

    async def slow() -> AsyncIterator[bytes]:
        yield LARGE[: 2 * MIB]
        waiting.release()
        await go_on.wait()
        yield LARGE[2 * MIB :]

    async def send(number: int) -> str:
        key = new(scope, number).id
        async with artifacts.staging(scope.tenant, key, slow(), mime="a/b") as staged:
            return staged.sha256

    async with asyncio.TaskGroup() as owner:
        sent = [owner.create_task(send(number)) for number in range(everybody)]
        readers = [artifacts.read(ref, range(len(LARGE))) for _ in range(everybody)]
        begun = [await anext(reader) for reader in readers]
        for _ in sent:
            await waiting.acquire()
        assert store.pool.get_idle_size() == store.pool.get_size()
        assert await artifacts.exists(scope, ref.id)
        go_on.set()
    assert {task.result() for task in sent} == {ref.sha256}
    rest = [[piece async for piece in reader] for reader in readers]
    assert [_joined(*each) for each in zip(begun, rest, strict=True)] == [LARGE] * everybody


def _joined(first: bytes, others: Sequence[bytes]) -> bytes:
    return b"".join([first, *others])


async def test_an_upload_that_goes_on_is_not_swept_and_one_that_was_swept_does_not_go_on(
    store: Store, artifacts: StoreArtifacts, bucket: BucketWorld | None, scope: Identity
) -> None:
    """Each piece renews the note; without a note no further one is laid anywhere."""
    if bucket is not None:
        pytest.skip("an object has no pieces before it is whole")

    async def slow() -> AsyncIterator[bytes]:
        yield LARGE[: 2 * MIB]
        await an_hour_later(store, scope.tenant)
        yield LARGE[2 * MIB : 4 * MIB]
        await sweep(store, bucket)
        assert await lying(store, bucket, scope.tenant) == {new(scope).id}
        await an_hour_later(store, scope.tenant)
        await sweep(store, bucket)
        yield LARGE[4 * MIB :] + LARGE

    with pytest.raises(StoreUnavailable, match="swept"):
        async with artifacts.staging(scope.tenant, new(scope).id, slow(), mime="a/b"):
            pass
    assert await lying(store, bucket, scope.tenant) == set()
