"""Where the bytes of artifacts lie that are not in the database: a bucket.

What speaks S3 is an extra, `turngate[s3]`: `app.store.artifacts.s3`, imported when a bucket is
opened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Sequence


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """A bucket as settings name it: `s3://BUCKET` or `s3://BUCKET/PREFIX`.

    Without an endpoint it is AWS's; without keys what the machine itself may do, as for any client
    of AWS.
    """

    url: str
    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)


class Bucket(Protocol):
    """Objects by key. All methods but `presigned` raise StoreUnavailable."""

    async def put(self, key: str, content: bytes, *, media_type: str) -> None:
        """Store an object whole, or nothing of it; a browser is told to save it, not to show it."""
        ...

    async def put_pieces(self, key: str, pieces: AsyncIterable[bytes], *, media_type: str) -> None:
        """Store an object as its pieces come. What these raise passes, and nothing is stored."""
        ...

    async def get(self, key: str, *, size: int) -> bytes | None:
        """The bytes; None for an object that is gone, or is not of that size."""
        ...

    async def get_part(self, key: str, part: range) -> bytes | None:
        """The bytes at these places; None for an object that is gone or has not that many."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Let go of objects; of those that are not there as well."""
        ...

    async def presigned(self, key: str, *, seconds: int) -> str:
        """A URL that reads the object, for whoever has it, for so long. Asks nobody."""
        ...
