"""Attachments of tests: a store in memory, and files for it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.shapes import ArtifactRef, InputArtifactView

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pydantic import JsonValue

    from app.runctx.shapes import Namespace

MINE = Identity("acme", "alice", "conv_1", "run_1")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n picture"
MIB = 1024 * 1024


def ref(
    artifact_id: str,
    mime: str = "image/png",
    *,
    size: int = len(PNG),
    trust: Trust = Trust.TRUSTED_USER,
    filename: str | None = None,
    tool: str | None = None,
) -> ArtifactRef:
    namespace: Namespace = "uploads" if tool is None else "results"
    return ArtifactRef(
        id=artifact_id,
        identity=MINE.session_scope(),
        namespace=namespace,
        sha256=hashlib.sha256(artifact_id.encode()).hexdigest(),
        mime=mime,
        sniffed=mime,
        size_bytes=size,
        filename=filename,
        tool=tool,
        by="alice",
        trust=trust,
        created_at=NOON,
    )


def view(
    artifact_id: str = "art_1",
    mime: str = "image/png",
    *,
    disposition: str = "",
    content: bytes | None = None,
    filename: str = "",
) -> InputArtifactView:
    return InputArtifactView(
        id=artifact_id,
        mime=mime,
        size_bytes=3,
        filename=filename,
        sha256="ab" * 32,
        disposition=disposition,
        trust=Trust.TRUSTED_USER,
        content=content,
    )


class Shelf:
    """An artifact reader in memory, which remembers what it was asked for."""

    def __init__(self, *refs: ArtifactRef, content: bytes = PNG) -> None:
        self.refs = {one.id: one for one in refs}
        self.content: dict[str, bytes | None] = {one.id: content for one in refs}
        self.failing: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    async def get_ref(self, identity: Identity, artifact_id: str) -> ArtifactRef | None:
        self.asked.append(("get_ref", artifact_id))
        if artifact_id in self.failing:
            raise OSError("the disk is gone")
        found = self.refs.get(artifact_id)
        return found if found is not None and found.identity == identity else None

    async def get(self, identity: Identity, artifact_id: str) -> bytes | None:
        self.asked.append(("get", artifact_id))
        if f"bytes of {artifact_id}" in self.failing:
            raise OSError("the disk is gone")
        return self.content.get(artifact_id)


class Tools:
    """A catalogue: tools by name, in order, with the media types they say they read."""

    def __init__(self, **reads: str) -> None:
        self.reads = {name.replace("__", "."): kind for name, kind in reads.items()}

    def schemas(self, scopes: Collection[str] | None) -> Sequence[JsonValue]:
        return []

    def owns(self, name: str) -> bool:
        return name in self.reads

    def reader_of(self, media_type: str) -> str | None:
        return next((name for name, kind in self.reads.items() if kind == media_type), None)
