"""Where a demo works: a data directory that nobody else uses, since their worker takes any run."""

from __future__ import annotations

import os
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from app.cli.demo.server import DemoFailed
from app.store.server.embedded import is_used
from app.store.server.embedded_keeper import locked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.settings import Settings


@contextmanager
def undisturbed(settings: Settings) -> Iterator[Settings]:
    """Settings with a place of one's own for the block. Raises DemoFailed and StoreUnavailable.

    It is the data directory, or one in it while somebody works there.
    """
    for place in _places(settings.data_dir):
        if settings.database_url is None and is_used(place):
            continue
        descriptor = _opened(place)
        try:
            if locked(descriptor):
                yield settings.model_copy(update={"data_dir": place})
                return
        finally:
            os.close(descriptor)


def _places(data_dir: Path) -> Iterator[Path]:
    yield data_dir
    yield data_dir / "demo"
    yield from (data_dir / f"demo-{number}" for number in count(2))


def _opened(place: Path) -> int:
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(place / "demo.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise DemoFailed(f"no place for the demo in {place}: {error.strerror or error}") from error
