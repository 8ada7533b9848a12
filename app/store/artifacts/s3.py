"""A bucket of an S3-compatible store; the only module that imports obstore."""

from __future__ import annotations

import asyncio
import re
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Self

import obstore
import structlog
from obstore.exceptions import BaseError
from obstore.store import S3Store

from app.errors import Misconfigured, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterator, Sequence

    from obstore import Attributes
    from obstore.store import ClientConfig, RetryConfig, S3Config

    from app.store.artifacts.bucket import BucketPlace

_TIMES: Final[ClientConfig] = {"connect_timeout": "5s", "timeout": "60s"}
_RETRIES: Final[RetryConfig] = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
# A part has 5 MiB, and so many are in memory on their way.
_PARTS_AT_ONCE: Final = 2
# Of what an S3 store answers, only its word for the error is told: the rest may quote the request.
_CODE: Final = re.compile(r"<Code>(\w{1,60})</Code>")

log = structlog.get_logger("turngate.bucket")


class S3Bucket:
    """The port `Bucket`. Connections are opened when they are needed."""

    def __init__(self, place: BucketPlace) -> None:
        """Raises Misconfigured for a place that can never be one."""
        is_plain = place.endpoint is not None and place.endpoint.startswith("http://")
        try:
            self._store = S3Store.from_url(
                place.url,
                config=_config(place),
                client_options={**_TIMES, "allow_http": is_plain},
                retry_config=_RETRIES,
            )
        except (BaseError, ValueError) as error:
            raise Misconfigured("TURNGATE_ARTIFACTS_BUCKET: no bucket can be so") from error

    async def put(self, key: str, content: bytes, *, media_type: str) -> None:
        """Store an object in one request, so that a broken one leaves no part behind."""
        with _asking():
            await obstore.put_async(
                self._store, key, content, attributes=_told(media_type), use_multipart=False
            )

    async def put_pieces(self, key: str, pieces: AsyncIterable[bytes], *, media_type: str) -> None:
        """Store an object in parts, which are given up together if no piece comes any more."""
        coming = _Coming(pieces)
        putting = asyncio.ensure_future(
            obstore.put_async(
                self._store,
                key,
                coming,
                attributes=_told(media_type),
                use_multipart=True,
                max_concurrency=_PARTS_AT_ONCE,
            )
        )
        with _asking():
            try:
                await asyncio.shield(putting)
            except asyncio.CancelledError:
                # The library gives the parts up where no piece comes, not where it is cancelled.
                coming.stop()
                await asyncio.gather(putting, return_exceptions=True)
                raise

    async def get(self, key: str, *, size: int) -> bytes | None:
        """The bytes; a body of another size is not even read."""
        with _asking():
            try:
                found = await obstore.get_async(self._store, key)
            except (BaseError, FileNotFoundError) as error:
                if not _is_gone(error):
                    raise
                return None
            if found.meta["size"] != size:
                return None
            return bytes(await found.bytes_async())

    async def get_part(self, key: str, part: range) -> bytes | None:
        """The bytes at these places, in one request."""
        with _asking():
            try:
                found = await obstore.get_range_async(
                    self._store, key, start=part.start, end=part.stop
                )
            except (BaseError, FileNotFoundError) as error:
                if not _is_gone(error):
                    raise
                return None
            return bytes(found)

    async def delete(self, keys: Sequence[str]) -> None:
        """Let go of objects, many in one request."""
        with _asking():
            await obstore.delete_async(self._store, keys)

    async def presigned(self, key: str, *, seconds: int) -> str:
        """A URL that reads the object for so long."""
        with _asking():
            return await obstore.sign_async(self._store, "GET", key, timedelta(seconds=seconds))


class _Coming:
    """Pieces, until they are stopped, even while the next one is waited for."""

    def __init__(self, pieces: AsyncIterable[bytes]) -> None:
        self._pieces = aiter(pieces)
        self._is_stopped = False
        self._waiting: asyncio.Task[object] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._is_stopped:
            raise asyncio.CancelledError
        self._waiting = asyncio.current_task()
        try:
            return await anext(self._pieces)
        finally:
            self._waiting = None

    def stop(self) -> None:
        """Let no piece come any more."""
        self._is_stopped = True
        if self._waiting is not None:
            self._waiting.cancel()


def _told(media_type: str) -> Attributes:
    """What a browser is told of an object: to save it, whatever it is."""
    return {"Content-Type": media_type, "Content-Disposition": "attachment"}


def _config(place: BucketPlace) -> S3Config:
    """What was said of the place; the rest is left to AWS's own ways of finding it."""
    config: S3Config = {}
    if place.endpoint is not None:
        config["endpoint"] = place.endpoint
    if place.region is not None:
        config["region"] = place.region
    if place.access_key_id is not None and place.secret_access_key is not None:
        config["access_key_id"] = place.access_key_id
        config["secret_access_key"] = place.secret_access_key
    return config


@contextmanager
def _asking() -> Iterator[None]:
    """A block that asks the bucket. Raises StoreUnavailable."""
    try:
        yield
    except (BaseError, OSError) as error:
        log.warning("bucket.failed", error=type(error).__name__, code=_code(error))
        raise StoreUnavailable("the bucket of artifacts did not answer") from error


def _is_gone(error: Exception) -> bool:
    """Whether it is the object that is not there, or has no byte at those places."""
    if isinstance(error, FileNotFoundError):
        return _code(error) != "NoSuchBucket"
    return _code(error) == "InvalidRange"


def _code(error: Exception) -> str | None:
    found = _CODE.search(str(error))
    return None if found is None else found[1]
