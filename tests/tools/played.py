"""What the tests of tools share: files in memory, an invocation, a clock."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.engine.json.arguments import canonical_bytes
from app.log.records import FileEntry
from app.turn.ports import ToolInvocation

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Sequence

    from app.log.records import WorkspaceFile
    from app.runctx.shapes import ArtifactRef
    from app.turn.ports import ToolOutcome


@dataclass
class FixedClock:
    """2026-11-29T12:00:00.007Z, for ever."""

    ms: int = 1_795_953_600_007

    def now_ms(self) -> int:
        return self.ms

    def jitter(self) -> float:
        return 0.5

    async def sleep(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


@dataclass
class FilesInMemory:
    """The store's side of the workspace, by (conversation, path)."""

    rows: dict[tuple[str, str], WorkspaceFile] = field(default_factory=dict)
    artifacts: dict[tuple[str, str], tuple[ArtifactRef, bytes]] = field(default_factory=dict)

    async def list_files(self, conversation_id: str) -> list[FileEntry]:
        return [
            FileEntry(path, len(file.content))
            for (conversation, path), file in self.rows.items()
            if conversation == conversation_id
        ]

    async def read_file(self, conversation_id: str, path: str) -> WorkspaceFile | None:
        return self.rows.get((conversation_id, path))

    async def write_file(
        self, conversation_id: str, file: WorkspaceFile, *, max_total_bytes: int
    ) -> bool:
        others = [e for e in await self.list_files(conversation_id) if e.path != file.path]
        if sum(entry.size_bytes for entry in others) + len(file.content) > max_total_bytes:
            return False
        self.rows[(conversation_id, file.path)] = file
        return True

    async def delete_file(self, conversation_id: str, path: str) -> bool:
        return self.rows.pop((conversation_id, path), None) is not None

    async def change_files(
        self,
        conversation_id: str,
        written: AsyncIterable[WorkspaceFile],
        deleted: Sequence[str],
        *,
        max_total_bytes: int,
    ) -> bool:
        files = [file async for file in written]
        before = dict(self.rows)
        for path in deleted:
            await self.delete_file(conversation_id, path)
        self.rows |= {(conversation_id, file.path): file for file in files}
        sizes = [entry.size_bytes for entry in await self.list_files(conversation_id)]
        if sum(sizes) > max_total_bytes:
            self.rows = before
            return False
        return True

    async def copy_files(self, source: str, target: str, places: Sequence[str]) -> list[str]:
        for conversation, path in list(self.rows):
            if conversation == target:
                del self.rows[(conversation, path)]
        shared = {
            path: file
            for (conversation, path), file in self.rows.items()
            if conversation == source
            and any(at in {path, "."} or path.startswith(f"{at}/") for at in places)
        }
        self.rows |= {(target, path): file for path, file in shared.items()}
        return sorted(shared)

    async def artifact(
        self, conversation_id: str, artifact_id: str
    ) -> tuple[ArtifactRef, bytes] | None:
        return self.artifacts.get((conversation_id, artifact_id))


def invocation(name: str, args: dict[str, Any], *, tainted: bool = False) -> ToolInvocation:
    return ToolInvocation(
        call_id="call-7",
        request_id="call_0_0",
        name=name,
        args=args,
        args_canonical=canonical_bytes(args),
        idempotency_key="run_1:call-7",
        tainted=tainted,
    )


def result_of(outcome: ToolOutcome) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(outcome.text)
    return value
