"""The bucket itself: what is said where it is away, is not there, or cannot be."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest
import structlog

from app.errors import Misconfigured, StoreUnavailable
from app.store.artifacts.bucket import BucketPlace
from app.store.open import open_bucket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.loopback.buckets import S3


async def test_an_object_that_is_not_there_is_none_and_is_deleted_without_a_word(s3: S3) -> None:
    bucket = s3.bucket().bucket
    assert await bucket.get("missing", size=1) is None
    assert await bucket.get_part("missing", range(1)) is None
    await bucket.delete(["missing", "as well"])


async def test_a_body_of_another_size_is_not_read(s3: S3) -> None:
    world = s3.bucket()
    await world.bucket.put("key", b"12345", media_type="text/plain")
    assert await world.bucket.get("key", size=5) == b"12345"
    assert await world.bucket.get("key", size=4) is None


async def test_a_part_is_read_where_the_object_has_such_bytes(s3: S3) -> None:
    world = s3.bucket()
    await world.bucket.put("key", b"12345", media_type="text/plain")
    assert await world.bucket.get_part("key", range(1, 4)) == b"234"
    assert await world.bucket.get_part("key", range(5, 9)) is None


@pytest.mark.parametrize("pieces", [0, 15])
async def test_an_upload_that_is_cancelled_leaves_no_part(s3: S3, pieces: int) -> None:
    world = s3.bucket()
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(pieces):
            yield bytes(1024 * 1024)
        begun.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(30), asyncio.TaskGroup() as owner:
        upload = world.bucket.put_pieces("key", endless(), media_type="text/plain")
        putting = owner.create_task(upload)
        await begun.wait()
        putting.cancel()
    assert (world.keys, world.unfinished) == ([], [])


async def test_a_bucket_that_is_not_there_is_a_store_that_is_away(s3: S3) -> None:
    bucket = open_bucket(s3.place(url="s3://never-made"))
    with structlog.testing.capture_logs() as told:
        for asked in (
            bucket.put("key", b"1", media_type="text/plain"),
            bucket.get("key", size=1),
            bucket.get_part("key", range(1)),
            bucket.delete(["key"]),
        ):
            with pytest.raises(StoreUnavailable, match="bucket"):
                await asked
    assert [(line["event"], line["code"]) for line in told] == [
        ("bucket.failed", "NoSuchBucket")
    ] * 4


async def test_what_is_told_of_a_failure_holds_neither_a_key_nor_the_request() -> None:
    place = BucketPlace("s3://bucket", "http://127.0.0.1:1", "us-east-1", "AKIA1", "very-private")
    with structlog.testing.capture_logs() as told, pytest.raises(StoreUnavailable) as caught:
        await open_bucket(place).put("art_1", b"payload", media_type="text/plain")
    shown = f"{told} {caught.value.message} {place!r}"
    assert "very-private" not in shown
    assert "payload" not in shown


@pytest.mark.parametrize("url", ["gs://bucket", "bucket", "s3://"])
def test_a_place_that_can_be_no_bucket_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="TURNGATE_ARTIFACTS_BUCKET"):
        open_bucket(BucketPlace(url))


def test_without_the_extra_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "app.store.artifacts.s3", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(Misconfigured, match=r"turngate\[s3\]"):
        open_bucket(BucketPlace("s3://bucket"))
