"""Small secrets of this machine: files that only their owner reads, made once by whoever is first.

They hold the keys of the development issuer and of the seals. Processes that start together agree
on one content, since a finished file is linked into place and a name is linked once.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def kept(path: Path, make: Callable[[], bytes]) -> bytes:
    """The content of `path`; where there is none, what `make` gives is put there, mode 0600.

    Raises StoreUnavailable when the file can be neither read nor made.
    """
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _place(path, make())
        return path.read_bytes()
    except OSError as error:
        raise StoreUnavailable(f"cannot keep {path}: {error}") from error


def replace(path: Path, content: bytes) -> None:
    """Put that content into `path`, mode 0600, at once and for good. Raises StoreUnavailable."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _scratch(path, content) as scratch:
            scratch.replace(path)
    except OSError as error:
        raise StoreUnavailable(f"cannot keep {path}: {error}") from error


def _place(path: Path, content: bytes) -> None:
    """Link a finished file to `path`; whoever comes second keeps what is there."""
    with _scratch(path, content) as scratch, suppress(FileExistsError):
        os.link(scratch, path)


@contextmanager
def _scratch(path: Path, content: bytes) -> Iterator[Path]:
    """A finished file beside `path`, which is gone afterwards unless it became `path`."""
    # mkstemp makes the file with mode 0600, whatever the umask is.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    scratch = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        yield scratch
    finally:
        scratch.unlink(missing_ok=True)
