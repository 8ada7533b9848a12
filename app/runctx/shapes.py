"""The values that the ports of this room hand over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime

    from app.ids import Identity
    from app.policy.taint import Trust

Namespace = Literal["uploads", "results"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Bytes that were taken in as they came, on their way to the artifact of this id.

    A small file is at hand as `content`; any other lies where it is to stay, in pieces of
    `piece_bytes` each and a last one that may be shorter. `piece_digests` has the 32 bytes of each.
    """

    id: str
    sha256: str
    size_bytes: int
    sniffed: str
    content: bytes | None = None
    in_bucket: bool = False
    piece_bytes: int | None = None
    piece_digests: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArtifact:
    """A file to be kept. `id` is used unless its scope holds the same bytes already.

    `mime` is what was declared. A name is a principal's; `tool` and `by` are provenance.
    """

    id: str
    namespace: Namespace
    content: bytes | Staged
    mime: str
    trust: Trust
    at: datetime
    by: str = ""
    filename: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRef:
    """A file that is kept, without its bytes; `sniffed` is what these say of themselves."""

    id: str
    identity: Identity
    namespace: Namespace
    sha256: str
    mime: str
    sniffed: str
    size_bytes: int
    filename: str | None
    tool: str | None
    by: str
    trust: Trust
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class InputArtifactView:
    """An attachment as a prompt needs it; `content` is there where the bytes go along.

    `disposition` is the effective one, `mime` what was declared; `filename` is empty where there
    is none, or none that may be shown.
    """

    id: str
    mime: str
    size_bytes: int
    filename: str
    sha256: str
    disposition: str
    trust: Trust
    content: bytes | None = None
