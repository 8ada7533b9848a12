"""An S3-compatible store on a loopback port: moto, a program of `.tools`, in a process of its own.

It keeps what it is sent in memory and asks for no sound signature; that, and how fast it is, aside
it behaves as S3 does.
"""

from __future__ import annotations

import re
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

import httpx

from app.store.artifacts.bucket import BucketPlace
from app.store.open import open_bucket
from tests.architecture.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.store.artifacts.bucket import Bucket

MOTO: Final = ROOT / ".tools" / "bin" / "moto_server"
_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:\d+")
_names = count(1)


@dataclass(frozen=True)
class S3:
    """A running server, and buckets on it."""

    url: str

    def place(self, *, url: str | None = None, endpoint: str | None = None) -> BucketPlace:
        """A bucket that nobody else uses, which is made; or the one of that URL as it is."""
        if url is None:
            name = f"bucket-{next(_names)}"
            httpx.put(f"{self.url}/{name}", trust_env=False).raise_for_status()
            url = f"s3://{name}/artifacts"
        return BucketPlace(url, endpoint or self.url, "us-east-1", "key", "its secret")

    def bucket(self) -> BucketWorld:
        """A new bucket, opened."""
        place = self.place()
        return BucketWorld(self.url, place, open_bucket(place))


@dataclass(frozen=True)
class BucketWorld:
    """A bucket, and what lies in it behind its client's back."""

    server: str
    place: BucketPlace
    bucket: Bucket

    @property
    def keys(self) -> list[str]:
        """The keys of all objects, without the prefix."""
        return self._listed("list-type=2")

    @property
    def unfinished(self) -> list[str]:
        """The keys of objects whose parts lie there, without the prefix."""
        return self._listed("uploads")

    def _listed(self, query: str) -> list[str]:
        name = self.place.url.split("/")[2]
        listed = httpx.get(f"{self.server}/{name}?{query}", trust_env=False).text
        return re.findall(r"<Key>artifacts/([^<]+)</Key>", listed)


@contextmanager
def s3_server() -> Iterator[S3]:
    """A server on a free port, for the length of the block."""
    command = [str(MOTO), "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            address = next(filter(None, map(_ADDRESS.search, server.stderr)))
            # It writes a line for every request, and would wait for somebody to read them.
            threading.Thread(target=server.stderr.read, daemon=True).start()
            yield S3(address[0])
        finally:
            server.terminate()
