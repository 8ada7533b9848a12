"""Files for vendors' own storage in tests: bytes that count their reads, and vendors' answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.ids import Identity
from app.turn.native_files import NativeFile
from tests.providers.vendors import CLAUDE
from tests.support.loopback.model_servers import claude, refused
from tests.support.loopback.search_servers import OPENAI, responses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


BYTES = b"%PDF-1.7 \r\n\xff\x00"
ALICE = Identity("acme", "alice", "conv_1")
HELLO = ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Hello"}])
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
}
# What each vendor answers to an upload, and to the call that shows the file.
UPLOADED = {
    OPENAI: refused(
        200,
        {
            "id": "file-1",
            "object": "file",
            "bytes": 1,
            "created_at": 1,
            "filename": "a",
            "purpose": "user_data",
            "status": "processed",
        },
    ),
    CLAUDE: refused(
        200,
        {
            "id": "file-1",
            "type": "file",
            "filename": "a",
            "mime_type": "a/b",
            "size_bytes": 1,
            "created_at": "2026-11-29T12:00:00Z",
        },
    ),
}
SAID = {OPENAI: responses(MESSAGE), CLAUDE: claude(HELLO)}
GONE = refused(200, {"id": "file-1", "type": "file_deleted", "object": "file", "deleted": True})


FILE_PART: dict[str, dict[str, Any]] = {
    OPENAI: {"type": "input_file", "file_id": "file-1"},
    CLAUDE: {"type": "document", "source": {"type": "file", "file_id": "file-1"}},
}


@dataclass
class Bytes:
    """Bytes, and how often they were read."""

    content: bytes | None = BYTES
    reads: int = 0
    error: Exception | None = None

    async def read(self) -> bytes | None:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return self.content


def native(
    read: Callable[[], Awaitable[bytes | None]],
    media_type: str = "application/pdf",
    identity: Identity = ALICE,
    sha256: str = "ab" * 32,
) -> NativeFile:
    return NativeFile(
        id="art_1",
        identity=identity,
        media_type=media_type,
        filename="plan.pdf",
        sha256=sha256,
        stub="" if media_type.startswith("image/") else "Attachment: the stub",
        read=read,
    )
